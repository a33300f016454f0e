"""HiPC-SRS 2021, III-A to III-F: storage, loader workers and caching on AGX Xavier and Xavier NX."""
