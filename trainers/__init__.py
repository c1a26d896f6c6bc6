"""How one trial trains: data, model, architectures, the Lightning job. Importing the package imports no torch."""
