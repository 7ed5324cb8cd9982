def page(node):
    return ""
