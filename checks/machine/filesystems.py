"""Kinds of file systems, by what keeps their data. Pure."""

from __future__ import annotations

OVERLAY = "overlay"
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "rootfs")
REMOTE = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "gpfs", "beegfs", "wekafs", "afs"),
    *("fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.blobfuse2", "fuse.goofys", "fuse.rclone"),
    *("fuse.mountpoint-s3", "fuse.juicefs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse"),
    *("fuse.weka", "pvfs2", "orangefs", "panfs"),
)
"""Kept by other boxes, over a network."""
SHARED = ("9p", "virtiofs", "drvfs", "vboxsf", "fuse.vmhgfs-fuse", "prl_fs")
"""Kept by the host of a virtual machine."""
MADE_READ_ONLY = ("squashfs", "erofs", "iso9660", "cramfs", "romfs", "udf")
"""Can be mounted in no other way."""
WITHOUT_LINKS = ("vfat", "msdos", "exfat")
"""Have no symbolic links."""
