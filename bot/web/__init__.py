"""The built-in web page and its JSON API."""
