"""The documentation site: pages in Markdown, and in `tools` what checks them and fills them in."""
