# The files that a machine fetches at its first boot: roles and static programs, content that an image build
# made, and the machine's own settings and keys. ci/bundle makes the archives.

locals {
  bundle  = "${local.root}/build/bundle/sparecraft.tar.gz"
  content = "${local.root}/build/bundle/content"

  settings = {
    for name, box in local.boxes : name => jsonencode({
      role    = box.folder
      program = box.program
      content = contains(keys(aws_s3_object.content), box.folder) ? {
        key    = "content/${box.folder}.tar.gz"
        sha256 = filesha256("${local.content}/${box.folder}.tar.gz")
      } : null
      files = box.files
      interfaces = [
        for network in ["control", "data"] : {
          name    = network
          id      = aws_network_interface.this["${name}/${network}"].id
          mac     = aws_network_interface.this["${name}/${network}"].mac_address
          address = network == "data" ? local.data_addresses[name] : local.control_addresses[name]
          subnet  = local.subnets["${network}-${local.zone_of[name]}"].cidr
          peer    = local.subnets["${network}-${1 - local.zone_of[name]}"].cidr
        }
      ]
    })
  }
}

# The account's bucket for fleets of this region (infra/account/fleets.tf): encrypted, closed to all but TLS. A fleet's
# objects lie below its VPC's id, which the roles of its machines go by.
locals {
  bucket = "sparecraft-fleets-${data.aws_caller_identity.this.account_id}-${var.region}"
  prefix = aws_vpc.this.id

  # No machine can list, so a name that nobody can guess is a key: settings hold the machine's own private key.
  settings_sha256 = { for name, settings in local.settings : name => nonsensitive(sha256(settings)) }
}

resource "aws_s3_object" "bundle" {
  bucket      = local.bucket
  key         = "${local.prefix}/sparecraft.tar.gz"
  source      = local.bundle
  source_hash = fileexists(local.bundle) ? filesha256(local.bundle) : null

  lifecycle {
    precondition {
      condition     = fileexists(local.bundle)
      error_message = "Expected ${abspath(local.bundle)}, which machines are made of (got none). Run ci/bundle."
    }
  }
}

resource "aws_s3_object" "content" {
  for_each = toset([for box in local.boxes : box.folder if fileexists("${local.content}/${box.folder}.tar.gz")])

  bucket      = local.bucket
  key         = "${local.prefix}/content/${each.key}.tar.gz"
  source      = "${local.content}/${each.key}.tar.gz"
  source_hash = filesha256("${local.content}/${each.key}.tar.gz")
}

resource "aws_s3_object" "machine" {
  for_each = toset(keys(local.boxes))

  bucket  = local.bucket
  key     = "${local.prefix}/machines/${local.settings_sha256[each.key]}.json"
  content = local.settings[each.key]

  lifecycle {
    precondition {
      condition     = contains(try(split("\n", file("${dirname(local.bundle)}/roles")), []), local.boxes[each.key].folder)
      error_message = "Expected role ${local.boxes[each.key].folder} in the bundle (got none). Run ci/bundle with the folder of the design's own roles; of a role with a pom.xml, ci/jars first."
    }
    precondition {
      condition     = fileexists("${local.roles[local.boxes[each.key].role].folder}/install.sh")
      error_message = "Expected install.sh in the folder of role ${local.boxes[each.key].role}, which an instance runs (got none: a role that has a stock image only is for the platform local)."
    }
    precondition {
      condition     = try(var.tiers[local.boxes[each.key].tier].image, null) == null
      error_message = "Expected no image for a tier of instances (${each.key}), which install.sh makes what they are. Remove it, or use the platform local."
    }
  }
}
