"""The local page: a person looks at what waits and decides it, in a browser on this machine."""
