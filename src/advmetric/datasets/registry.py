"""The table of datasets: what each one is, where it comes from and how to recognise it."""

from dataclasses import dataclass

from advmetric.utils.suggestions import look_up


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """One dataset as the registry describes it.

    Attributes
    ----------
    name : str
        The name that `load_dataset` takes.
    title : str
        The name its authors use.
    n, d, c : int
        Points (before rows with missing values are dropped), features and classes.
    n_missing : int
        Missing values in all.
    target_names : tuple of str
        The classes; label code ``i`` means ``target_names[i]``.
    feature_names : tuple of str or None
        The features, where they have names.
    bundled : bool
        Whether the package contains the data.
    table1 : bool
        Whether it is one of the seven sets of Table 1 of the AML paper.
    openml_id : int or None
        The fixed OpenML id, if the set can be had there.
    openml_labels : tuple of str or None
        OpenML's spelling of the classes where it differs from `target_names`.
    files : tuple of str
        File names looked for in the data home, in this order; a download is kept under the first.
    licence, citation : str
        On what terms the data may be used, and what to cite.
    coding : str
        How the values and categories are coded.
    sha256 : str
        `advmetric.datasets.files.content_checksum` of the reference copy.
    advice : str
        How to get a set that can neither be bundled nor downloaded; empty for the others.
    """

    name: str
    title: str
    n: int
    d: int
    c: int
    target_names: tuple[str, ...]
    files: tuple[str, ...]
    licence: str
    citation: str
    coding: str
    sha256: str
    feature_names: tuple[str, ...] | None = None
    n_missing: int = 0
    bundled: bool = False
    table1: bool = True
    openml_id: int | None = None
    openml_labels: tuple[str, ...] | None = None
    advice: str = ""


_UCI_LICENCE = "CC BY 4.0"
_ALPHABET = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")

_GERMAN_NUMERIC_ADVICE = """\
OpenML does not have it. Its source is the file german.data-numeric of the UCI Machine Learning Repository \
(Statlog, German Credit Data, doi:10.24432/C5NC77). Convert it in the data home with
    import numpy as np
    table = np.loadtxt("german.data-numeric")
    np.savez_compressed("german-credit-numeric.npz", X=table[:, :-1], y=table[:, -1].astype(int) - 1)
or use "german-credit", which is bundled: the same 1000 customers by their 20 original attributes"""

REGISTRY: dict[str, DatasetInfo] = {
    info.name: info
    for info in (
        DatasetInfo(
            name="breast-cancer",
            title="Breast Cancer Wisconsin (Original)",
            n=699,
            d=9,
            c=2,
            n_missing=16,
            bundled=True,
            openml_id=15,
            files=("breast-cancer.npz", "breast_cancer.npz"),
            target_names=("benign", "malignant"),
            feature_names=(
                "Cl.thickness",
                "Cell.size",
                "Cell.shape",
                "Marg.adhesion",
                "Epith.c.size",
                "Bare.nuclei",
                "Bl.cromatin",
                "Normal.nucleoli",
                "Mitoses",
            ),
            licence=_UCI_LICENCE,
            citation="Wolberg, W. (1990). Breast Cancer Wisconsin (Original) [Dataset]. "
            "UCI Machine Learning Repository. doi:10.24432/C5HP4Z",
            coding="Every feature is a grade from 1 to 10; the missing values are all in Bare.nuclei.",
            sha256="1de5be9a6fe8bbed6fa5631389d7ad27288500600b74718b8945ea67a6d9e4d1",
        ),
        DatasetInfo(
            name="vehicle",
            title="Statlog (Vehicle Silhouettes)",
            n=846,
            d=18,
            c=4,
            bundled=True,
            openml_id=54,
            files=("vehicle.npz",),
            target_names=("bus", "opel", "saab", "van"),
            feature_names=(
                "Comp",
                "Circ",
                "D.Circ",
                "Rad.Ra",
                "Pr.Axis.Ra",
                "Max.L.Ra",
                "Scat.Ra",
                "Elong",
                "Pr.Axis.Rect",
                "Max.L.Rect",
                "Sc.Var.Maxis",
                "Sc.Var.maxis",
                "Ra.Gyr",
                "Skew.Maxis",
                "Skew.maxis",
                "Kurt.maxis",
                "Kurt.Maxis",
                "Holl.Ra",
            ),
            licence=_UCI_LICENCE,
            citation="Mowforth, P. & Shepherd, B. (n.d.). Statlog (Vehicle Silhouettes) [Dataset]. "
            "UCI Machine Learning Repository. doi:10.24432/C5HG6N",
            coding="Every feature is an integer measured on the silhouette.",
            sha256="1e2d90f91ca0733662f736f855f17129e2151c0e761bbe07dd144480c0632e2c",
        ),
        DatasetInfo(
            name="german-credit",
            title="Statlog (German Credit Data), the 20 attributes of german.data",
            n=1000,
            d=20,
            c=2,
            bundled=True,
            table1=False,
            files=("german-credit.npz",),
            target_names=("good", "bad"),
            feature_names=(
                "checking_status",
                "duration",
                "credit_history",
                "purpose",
                "credit_amount",
                "savings",
                "employment_since",
                "installment_rate",
                "personal_status_sex",
                "other_debtors",
                "residence_since",
                "property",
                "age",
                "other_installment_plans",
                "housing",
                "existing_credits",
                "job",
                "people_liable",
                "telephone",
                "foreign_worker",
            ),
            licence=_UCI_LICENCE,
            citation="Hofmann, H. (1994). Statlog (German Credit Data) [Dataset]. "
            "UCI Machine Learning Repository. doi:10.24432/C5NC77",
            coding="Thirteen attributes are categories: category v of attribute j, which UCI writes Ajv (A14, A410), "
            "is coded as the integer v, so the codes are names and not amounts except where UCI ordered them; the "
            "other seven are numbers. The paper's Table 1 uses the 24 columns of german-credit-numeric instead.",
            sha256="2799da021af194a496e8d88bedbecc1d433c557fc385d129b5ae422fd2f4cca1",
        ),
        DatasetInfo(
            name="german-credit-numeric",
            title="Statlog (German Credit Data), the 24 columns of german.data-numeric",
            n=1000,
            d=24,
            c=2,
            files=("german-credit-numeric.npz", "german_credit_numeric.npz", "german_credit.npz"),
            target_names=("good", "bad"),
            licence=_UCI_LICENCE,
            citation="Hofmann, H. (1994). Statlog (German Credit Data) [Dataset]. "
            "UCI Machine Learning Repository. doi:10.24432/C5NC77",
            coding="Strathclyde University's numeric edition: ordered categories as integers, others as indicators.",
            sha256="f1eb15cb876a50952e58114628eaf6f20d1d76985775324b473d9f7ae63b9770",
            advice=_GERMAN_NUMERIC_ADVICE,
        ),
        DatasetInfo(
            name="image-segment",
            title="Image Segmentation",
            n=2310,
            d=19,
            c=7,
            bundled=True,
            openml_id=36,
            files=("image-segment.npz", "image_segment.npz"),
            target_names=("brickface", "sky", "foliage", "cement", "window", "path", "grass"),
            feature_names=(
                "region-centroid-col",
                "region-centroid-row",
                "region-pixel-count",
                "short-line-density-5",
                "short-line-density-2",
                "vedge-mean",
                "vedge-sd",
                "hedge-mean",
                "hedge-sd",
                "intensity-mean",
                "rawred-mean",
                "rawblue-mean",
                "rawgreen-mean",
                "exred-mean",
                "exblue-mean",
                "exgreen-mean",
                "value-mean",
                "saturation-mean",
                "hue-mean",
            ),
            licence=_UCI_LICENCE,
            citation="Image Segmentation [Dataset] (1990). UCI Machine Learning Repository. doi:10.24432/C5GP4N",
            coding="Measurements on 3 by 3 pixel regions, in single precision; region-pixel-count is 9 throughout.",
            sha256="5c2db804392018bb141b2b4d56a30ea55fba054262b883537e67e85f4ddae95f",
        ),
        DatasetInfo(
            name="isolet",
            title="ISOLET",
            n=7797,
            d=617,
            c=26,
            openml_id=300,
            openml_labels=tuple(str(i) for i in range(1, 27)),
            files=("isolet.npz",),
            target_names=_ALPHABET,
            licence=_UCI_LICENCE,
            citation="Cole, R. & Fanty, M. (1991). ISOLET [Dataset]. "
            "UCI Machine Learning Repository. doi:10.24432/C51G69",
            coding="Features of spoken letters, scaled to [-1, 1].",
            sha256="74bd1a4078eb99e39219ed55a78cbdd93ab8f13930971ced3c6397a4457a070a",
        ),
        DatasetInfo(
            name="letters",
            title="Letter Recognition",
            n=20000,
            d=16,
            c=26,
            bundled=True,
            openml_id=6,
            files=("letters.npz",),
            target_names=_ALPHABET,
            feature_names=(
                "x.box",
                "y.box",
                "width",
                "high",
                "onpix",
                "x.bar",
                "y.bar",
                "x2bar",
                "y2bar",
                "xybar",
                "x2ybr",
                "xy2br",
                "x.ege",
                "xegvy",
                "y.ege",
                "yegvx",
            ),
            licence=_UCI_LICENCE,
            citation="Slate, D. (1991). Letter Recognition [Dataset]. "
            "UCI Machine Learning Repository. doi:10.24432/C5ZP40",
            coding="Moments and edge counts of distorted letter images, scaled to the integers 0 to 15.",
            sha256="1edb21ae134c492da3e0ccd2d0ef211decc36276d8dfc69f3f2031a48cd6375e",
        ),
        DatasetInfo(
            name="mnist-4000",
            title="MNIST, 400 training images a digit",
            n=4000,
            d=784,
            c=10,
            bundled=True,
            openml_id=554,
            files=("mnist-4000.npz", "mnist4000.npz"),
            target_names=tuple("0123456789"),
            licence="CC BY-SA 3.0",
            citation="LeCun, Y., Bottou, L., Bengio, Y. & Haffner, P. (1998). Gradient-based learning applied to "
            "document recognition. Proceedings of the IEEE 86(11), 2278-2324. doi:10.1109/5.726791",
            coding="Grey values 0 to 255 of 28 by 28 pixels, row by row, of images from the training set.",
            sha256="aa40219f288d693dadf02b775bfbd417a4712c281ff06b5e9b6e32f897af870a",
        ),
    )
}


def list_datasets() -> list[DatasetInfo]:
    """Describe every dataset that `load_dataset` knows.

    Returns
    -------
    list of DatasetInfo
        In the order of the paper's Table 1, with the two codings of German Credit side by side.

    See Also
    --------
    load_dataset : Read one.

    Examples
    --------
    >>> from advmetric.datasets import list_datasets
    >>> [info.name for info in list_datasets() if not info.bundled]
    ['german-credit-numeric', 'isolet']
    """
    return list(REGISTRY.values())


def find_info(name: str) -> DatasetInfo:
    """Return the record of one dataset, or raise an error that lists the known names."""
    return look_up(name, REGISTRY, "dataset")
