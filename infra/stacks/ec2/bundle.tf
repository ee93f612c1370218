# What a machine fetches at its first boot: roles and static programs, content that an image build
# made, and the machine's own settings and keys. ci/bundle makes the archives.

locals {
  bundle  = "${local.root}/build/bundle/sparecraft.tar.gz"
  content = "${local.root}/build/bundle/content"

  settings = {
    for name, box in local.boxes : name => jsonencode({
      role    = box.folder
      program = box.program
      content = contains(keys(aws_s3_object.content), box.folder) ? aws_s3_object.content[box.folder].key : null
      files   = box.files
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

resource "aws_s3_bucket" "bundle" {
  bucket_prefix = "sc-${var.experiment}-"
  force_destroy = true
}

resource "aws_s3_bucket_public_access_block" "bundle" {
  bucket = aws_s3_bucket.bundle.id

  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "bundle" {
  bucket = aws_s3_bucket.bundle.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

# Moto takes every condition for met, but compares the case of letters, which AWS does not.
resource "aws_s3_bucket_policy" "tls_only" {
  bucket = aws_s3_bucket.bundle.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "TlsOnly"
      Effect    = "Deny"
      Principal = "*"
      Action    = "S3:*"
      Resource  = [aws_s3_bucket.bundle.arn, "${aws_s3_bucket.bundle.arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })

  depends_on = [aws_s3_bucket_public_access_block.bundle] # two changes of a bucket at once are refused
}

resource "aws_s3_object" "bundle" {
  bucket      = aws_s3_bucket.bundle.id
  key         = "sparecraft.tar.gz"
  source      = local.bundle
  source_hash = fileexists(local.bundle) ? filesha256(local.bundle) : null

  depends_on = [aws_s3_bucket_server_side_encryption_configuration.bundle]

  lifecycle {
    precondition {
      condition     = fileexists(local.bundle)
      error_message = "Expected ${abspath(local.bundle)}, which machines are made of, came none. Run ci/bundle."
    }
  }
}

resource "aws_s3_object" "content" {
  for_each = toset([for box in local.boxes : box.folder if fileexists("${local.content}/${box.folder}.tar.gz")])

  bucket      = aws_s3_bucket.bundle.id
  key         = "content/${each.key}.tar.gz"
  source      = "${local.content}/${each.key}.tar.gz"
  source_hash = filesha256("${local.content}/${each.key}.tar.gz")

  depends_on = [aws_s3_bucket_server_side_encryption_configuration.bundle]
}

resource "aws_s3_object" "machine" {
  for_each = toset(keys(local.boxes))

  bucket  = aws_s3_bucket.bundle.id
  key     = "machines/${each.key}.json"
  content = local.settings[each.key]

  depends_on = [aws_s3_bucket_server_side_encryption_configuration.bundle]

  lifecycle {
    precondition {
      condition     = contains(try(split("\n", file("${dirname(local.bundle)}/roles")), []), local.boxes[each.key].folder)
      error_message = "Expected role ${local.boxes[each.key].folder} in the bundle, came none. Run ci/bundle with the folder of the design's own roles; of a role with a pom.xml, ci/jars first."
    }
    precondition {
      condition     = fileexists("${local.roles[local.boxes[each.key].role].folder}/install.sh")
      error_message = "Expected install.sh in the folder of role ${local.boxes[each.key].role}, which an instance runs, came none: a role that has a stock image only is for the platform local."
    }
    precondition {
      condition     = try(var.tiers[local.boxes[each.key].tier].image, null) == null
      error_message = "Expected no image for a tier of instances (${each.key}), which install.sh makes what they are. Remove it, or use the platform local."
    }
  }
}
