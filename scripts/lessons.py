#!/usr/bin/env python3
"""Makes the pages of docs/lessons from the text of docs/lessons.md, and their figures, with the models that come with heed.

A lesson is a section with a command that writes a page; the page shows its text, above what the command records. The section "The course" is
the index. A picture is on the page if it has a title. With Chromium, pictures of pages are made again, too.

usage: scripts/lessons.py HEED      (the built command, such as build/release/heed)
"""
import base64
import html
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT, PAGES, IMAGES = ROOT / "docs/lessons.md", ROOT / "docs/lessons", ROOT / "docs/images"
FIGURES = {
    "lesson-heads": ["shakespeare", "But soft", "--layers", "0", "--heads", "0,1,3", "--width", "700"],
    "lesson-positions": ["reviews-mlm", "The [MASK] was written by a child.", "--layers", "2", "--heads", "2,3", "--width", "560"],
    "lesson-translation": ["en-fr", "I have never been to Paris.", "--target", "Je n'ai jamais été à Paris.", "--layers", "1", "--heads", "mean", "--width", "420"],
}
PICTURES = ["query-key-value", "scaling", "masks", "encoder"]  # of pages, as docs/images/lesson-NAME.png
STYLE = """
:root { --paper: #fff; --ink: #1b1f24; --soft: #59606b; --line: #d7dbe0; --ring: #1d4ed8; }
@media (prefers-color-scheme: dark) { :root { --paper: #16181c; --ink: #e6e8ec; --soft: #a3aab5; --line: #373c45; --ring: #93c5fd; } }
body { margin: 0 auto; max-width: 72ch; padding: 32px 16px; font: 16px/1.55 system-ui, "Segoe UI", "DejaVu Sans", "Noto Sans", sans-serif; color: var(--ink); background: var(--paper); }
h1 { font-size: 26px; line-height: 1.25; } ol { padding: 0; list-style-position: inside; } li { padding: 8px 0; border-top: 1px solid var(--line); }
a { color: inherit; font-weight: 600; text-decoration-color: var(--soft); text-underline-offset: 3px; } a:hover { text-decoration-color: currentColor; }
:focus-visible { outline: 2px solid var(--ring); outline-offset: 2px; }
"""


def inline(text):
    """Code, links, bold and italic words of one paragraph."""
    parts = re.split(r"`([^`]*)`", text)
    for i, part in enumerate(parts):
        part = html.escape(part, quote=False)
        if i % 2:
            parts[i] = f"<code>{part}</code>"
            continue
        part = re.sub(r"\[([^][]*)\]\(([^)]*)\)", lambda m: link(m[1], m[2]), part)
        part = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", part)
        parts[i] = re.sub(r"(?<!\w)\*([^*]+)\*", r"<em>\1</em>", part)
    return "".join(parts)


def link(text, target):
    if target.startswith("https:"):
        return f'<a href="{target}">{text}</a>'
    file = target.partition("#")[0]
    return f'<a href="{file.removeprefix("lessons/") if file.startswith("lessons/") else "../" + file}">{text}</a>'


def block_of(block):
    image = re.fullmatch(r'!\[(.*)\]\((\S+)(?: "(.*)")?\)', block)
    if image:
        alt, file, title = image.groups()
        if not title:
            return ""
        data = base64.b64encode((ROOT / "docs" / file).read_bytes()).decode()
        return (f'<figure><img alt="{html.escape(alt)}" src="data:image/svg+xml;base64,{data}">'
                f"<figcaption>{inline(title)}</figcaption></figure>\n")
    if block.startswith("### "):
        return f"<h2>{inline(block[4:])}</h2>\n"
    if block.startswith("<details>"):
        return f"<details><summary>{inline(re.search('<summary>(.*)</summary>', block)[1])}</summary>\n"
    if block.startswith("</details>"):
        return "</details>\n"
    if re.match(r"\d+\. ", block):
        items = "".join(f"<li>{inline(item)}</li>\n" for item in re.split(r"\n?^\d+\. ", block, flags=re.M)[1:])
        return f"<ol>\n{items}</ol>\n"
    return f"<p>{inline(block)}</p>\n"


def html_of(text):
    """Paragraphs, numbered lists, headings, pictures, fenced blocks, and details."""
    made = ""
    for i, part in enumerate(re.split(r"^```\n", text, flags=re.M)):
        if i % 2:
            made += f'<pre tabindex="0">{html.escape(part.rstrip(), quote=False)}</pre>\n'
            continue
        part = re.sub(r"^(</details>|### .*|.*</summary>)$", "\n\\g<0>\n", part, flags=re.M)
        blocks = re.split(r"\n\n+", part.strip("\n"))
        made += "".join(block_of(block.strip("\n")) for block in blocks if block.strip())
    return made


def notes_of(lessons, at):
    title, text, name = lessons[at]["title"], lessons[at]["text"], "The course"
    before = f'<a href="{lessons[at - 1]["page"]}" rel="prev">← {lessons[at - 1]["title"]}</a>' if at else ""
    after = f'<a href="{lessons[at + 1]["page"]}" rel="next">{lessons[at + 1]["title"]} →</a>' if at + 1 < len(lessons) else '<a href="index.html">The end: all lessons</a>'
    read, tried = text.split("\n### ", 1)
    return (f'<nav aria-label="Lessons"><span>Lesson {at + 1} of {len(lessons)}</span> <a href="index.html">{name}</a> {before} {after}</nav>\n'
            f'<h1 class="title">{html.escape(title)}</h1>\n'
            f'<div class="columns">\n<div>\n{html_of(read)}</div>\n<div>\n{html_of("### " + tried)}</div>\n</div>\n')


def index_of(text):
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="color-scheme" content="light dark">\n<title>Lessons on attention</title>\n<style>{STYLE}</style>\n</head>\n'
            f"<body>\n<main>\n<h1>Lessons on attention</h1>\n{html_of(text)}</main>\n</body>\n</html>\n")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: scripts/lessons.py HEED")
    heed = str(pathlib.Path(sys.argv[1]).resolve())
    environment = {**os.environ, "HEED_MODELS": str(ROOT / "models")}
    sections = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", TEXT.read_text(), flags=re.M | re.S))
    lessons = []
    for title, text in sections.items():
        command = re.search(r"^heed (explore .* --export \S+\.html .*)$", text, flags=re.M)
        if not command:
            continue
        words = shlex.split(command[1])
        lessons.append({"title": title, "text": text.split("\n[The page](")[0], "words": words, "page": words[words.index("--export") + 1]})
    PAGES.mkdir(exist_ok=True)
    (PAGES / "index.html").write_text(index_of(sections["The course"]))
    with tempfile.TemporaryDirectory() as folder:
        notes = pathlib.Path(folder, "notes.html")
        for at, lesson in enumerate(lessons):
            notes.write_text(notes_of(lessons, at))
            subprocess.run([heed, "--quiet", *lesson["words"], "--export-notes", notes], cwd=PAGES, env=environment, check=True)
            print(f"docs/lessons/{lesson['page']}: {(PAGES / lesson['page']).stat().st_size} bytes")
    for name, (model, *arguments) in FIGURES.items():
        subprocess.run([heed, "--quiet", "attend", "--model", model, *arguments, "--output", IMAGES / f"{name}.svg"], env=environment, check=True)
    for name in PICTURES:
        subprocess.run(["bash", "-c", PICTURE, "bash", f"file://{PAGES}/{name}.html", IMAGES / f"lesson-{name}.png"], cwd=ROOT, check=True)


# The map of a page, without the text above it.
PICTURE = r"""
set -euo pipefail
source scripts/devtools.sh
if ! command -v chromium chromium-browser google-chrome >/dev/null; then echo "lessons: skipped: no Chromium here for $2"; exit 0; fi
folder=$(mktemp -d)
trap 'browser_close; rm -rf "$folder" 2>/dev/null || { sleep 2; rm -rf "$folder"; }' EXIT
browser_open "$folder"
page_scheme light
page_size 1180 900
page_open "$1" document.documentElement.dataset.drawn
page_run "(async () => { for (const one of document.querySelectorAll('#notes, body > header, #ask, #tokens, #bar, footer, .note, .choice')) one.hidden = true; await viewer.drawn; await new Promise(done => setTimeout(done, 800)); return Math.ceil(document.querySelector('main').getBoundingClientRect().bottom); })()"
page_size 1180 "$page_result"
page_picture "$2"
"""

if __name__ == "__main__":
    main()
