"""`keel-lab judge`: the verdict of any loss curve, from a CSV, JSONL or Parquet file or an MLflow run.

`table` and `mlflow_table` read, `columns` finds what is needed, `log` makes steps of it, `judgement` judges and
`command` is what the command line calls.
"""
