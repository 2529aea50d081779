items = [str(i) for i in range(200000)]
table = {item: len(item) for item in items}
print(len(table))
