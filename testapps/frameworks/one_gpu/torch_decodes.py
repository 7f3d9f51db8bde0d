# PyTorch: a transformer of two layers decodes token by token, and the host reads each token.
# code: none
import torch

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
network = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda().eval()
embedding, head = torch.nn.Embedding(100, 64).cuda(), torch.nn.Linear(64, 100).cuda()
tokens = [1]
with torch.inference_mode():
    for _ in range(24):
        seen = network(embedding(torch.tensor([tokens], device="cuda")))
        tokens.append(int(head(seen[:, -1]).argmax()))
print(f"{len(tokens)} tokens, all known: {all(0 <= token < 100 for token in tokens)}")
