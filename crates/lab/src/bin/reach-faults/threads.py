# Eight threads, each of which builds a list and keeps it until all have finished.
import threading

barrier = threading.Barrier(8)

def work(seed):
    kept = []
    for i in range(12000):
        kept.append((seed, i, str(i * seed)))
        if i % 3 == 0:
            kept[i // 2] = [i] * 8
    barrier.wait()

threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
