"""Models in other formats: importers to Graph, and writers of Graphs as text. Must not know targets."""
