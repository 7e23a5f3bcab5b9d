"""How are pages filled in, and how is it known that what they show is so?

hooks: what mkdocs calls. includes: parts of pages that are written from the code. reference: which module is
on which page of the reference. formulas: LaTeX becomes MathML, so that no page needs a script. docstrings:
formulas in docstrings. sessions: the commands that pages show, run again. accuracy: the rows of `policylag
validate`.
"""
