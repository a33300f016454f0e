"""An ordinary script: trains with a loader, evaluates with another, prints, exits as told."""
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

workers, status = int(sys.argv[1]), sys.argv[2]
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = TensorDataset(torch.randn(40, 8), torch.randint(0, 2, (40,)))
train = DataLoader(data, batch_size=8, shuffle=True, num_workers=workers)
held_out = DataLoader(data, batch_size=20)
for epoch in range(2):
    net.train()
    for inputs, labels in train:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
    net.eval()
    right = 0
    with torch.no_grad():
        for inputs, labels in held_out:
            right += int((net(inputs).argmax(1) == labels).sum())
    print("epoch", epoch, "right", right)
if status == "raise":
    raise RuntimeError("the script's own trouble")
sys.exit(int(status))
