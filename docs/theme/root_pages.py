"""Pages of the site that are at the root of the repository, and links to its code, which the site does not hold."""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, with links as they are from docs/."""
    for name in PAGES:
        content = (ROOT / name).read_text().replace("](docs/", "](")
        files.append(File.generated(config, name.lower(), content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Leave the name alone where a link leads to a file of the repository; mkdocs reports those that lead nowhere."""
    folder = ROOT / "docs" / Path(page.file.src_path).parent

    def unlinked(link: re.Match[str]) -> str:
        target = (folder / link["target"]).resolve()
        is_code = target.is_file() and not target.is_relative_to(ROOT / "docs")
        return link["text"] if is_code else link[0]

    return re.sub(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)#:]+)\)", unlinked, markdown)
