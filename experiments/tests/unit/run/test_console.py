import io

from rich.console import Console

from experiments.console import Narrator


def test_a_line_with_brackets_is_printed_as_it_is() -> None:
    text = io.StringIO()
    narrator = Narrator(Console(file=text, width=200))
    narrator.say("the native worker sends [[load.operations]]")
    narrator.detail("wrote [bold]")
    with narrator.step("Measuring http://[::1]:8080/"):
        pass
    lines = text.getvalue().splitlines()
    assert lines[:2] == ["the native worker sends [[load.operations]]", "    wrote [bold]"]
    assert lines[2] == "Measuring http://[::1]:8080/"
