"""Text, pages, pictures and exports: turns records and answers into what a person or a program reads.

Functions from records; nothing here measures or decides.
"""
