"""From records to sections, and from sections to an HTML page or Markdown."""
