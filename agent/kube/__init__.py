"""From Kubernetes objects to values. ``convert`` is pure; files and, later, the API server come through here."""
