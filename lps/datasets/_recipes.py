"""Settings that several data sets recommend, for their `RECIPE`s: `PHOTOS | {"epochs": 100}`."""

PHOTOS = {  # as in the paper on CIFAR
    "epochs": 200,
    "batch_size": 512,
    "lr": 0.1,
    "weight_decay": 5e-4,
    "network.name": "cifar_resnet18",
    "network.freeze_until": "layer3",
    "views": "cifar",
    "pretrain.epochs": 500,
    "pretrain.batch_size": 512,
    "pretrain.optimizer": "sgd",
    "pretrain.lr": 0.06,
    "pretrain.weight_decay": 5e-4,
    "pretrain.projector_outputs": 128,
    "pretrain.temperature": 0.5,
}
GREY = PHOTOS | {"epochs": 100, "views": "grey", "pretrain.epochs": 200}  # no flip: digits are not symmetric
OWN_PICTURES = PHOTOS | {
    "dataset.image_size": 64,
    "epochs": 100,
    "batch_size": 256,
    "split.labeled_ratio": 1.0,
    "split.validation_ratio": 0.1,
    "pretrain.epochs": 100,
    "pretrain.batch_size": 256,
    "pretrain.lr": 0.03,
}
