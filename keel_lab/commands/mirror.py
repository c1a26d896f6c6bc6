"""Commands about MLflow."""

from __future__ import annotations

import click

from keel_lab.commands.completion import sweep_names
from keel_lab.commands.options import AS_JSON, NAME, STORAGE, TRACKING, open_root
from keel_lab.errors import UsageError


@click.command()
@NAME
@TRACKING
@STORAGE
@AS_JSON
@click.pass_context
def sync(context: click.Context, /, name: str, tracking: str | None, storage: str | None, as_json: bool) -> None:
    """Deliver to MLflow what it lacks of the stored sweep NAME: the whole sweep, if it is an empty server.

    The Optuna storage of a search is brought up to date as well. A second call changes nothing. It exits with 3 if
    something could not be delivered.
    """
    from keel_lab.composition import mirror_search, reporting
    from keel_lab.errors import IncompleteError
    from keel_lab.schedule.syncing import sync as deliver

    root = open_root(storage)
    uri = _uri(tracking, root.uri)
    done = deliver(name, root, uri, lambda: reporting([name], root, "md"))
    said, current = mirror_search(name, root, uri)
    click.echo(done.to_json() if as_json else done.text())
    for sentence in (*(done.undelivered or (done.where,)), *([said] if said else [])):
        click.echo(sentence, err=True)
    context.exit(done.exit_code if current else IncompleteError.exit_code)


@click.command()
@click.argument("name", required=False, shell_complete=sweep_names)
@TRACKING
@STORAGE
@click.option("--port", type=click.IntRange(1, 65535), help="Of our server; else 5000, or a free one.")
@click.option("--browser/--no-browser", default=True, help="Whether to open a browser.")
def ui(name: str | None, tracking: str | None, storage: str | None, port: int | None, browser: bool) -> None:
    """Show the sweep NAME in MLflow: print the address of its trials' charts and open it. Without NAME, all sweeps.

    Where tracking goes to a database, MLflow's server is started on loopback until Ctrl-C.
    """
    from keel_lab.store.sweeps import Sweeps
    from keel_lab.track.showing import show

    root = open_root(storage)
    stored = name is None or name in Sweeps(root).names()
    show(name, _uri(tracking, root.uri), port, browser=browser, stored=stored)


def _uri(tracking: str | None, root: str) -> str:
    from keel_lab.track.destination import tracking_uri

    uri = tracking_uri(tracking, root)
    if uri is None:
        raise UsageError(
            "--tracking: found off, or nothing beside a remote storage root; name the MLflow to use with --tracking "
            "or MLFLOW_TRACKING_URI"
        )
    return uri
