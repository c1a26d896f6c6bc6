"""docs/architectures.md is what the architectures' files say today."""

from docs.make_architectures import PAGE, page
from trainers import architectures


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python docs/make_architectures.py"


def test_every_architecture_has_equation_source_init_and_parameters() -> None:
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    assert [section.partition("\n")[0] for section in sections] == list(architectures.names())
    for section in sections:
        equation = section.split("\n")[2].partition("**: ")[2]
        assert equation, section
        assert all(f"- *{part}*: " in section for part in ("Source", "Init", "Watch", "Parameters")), section
        assert "```text\n" in section
