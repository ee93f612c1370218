# The files that machines are made of: a bucket for each region that users may use, named by the account,
# so that no other account's is taken for it. Nobody but the administrator changes how it is closed. A fleet's
# objects lie below its VPC's id; what is left of one goes after a week and a day.

locals {
  regions = one([
    for statement in jsondecode(file("${path.module}/user-look.json")).Statement :
    statement.Condition.StringNotEquals["aws:RequestedRegion"] if statement.Effect == "Deny"
  ])
}

resource "aws_s3_bucket" "fleets" {
  for_each = toset(local.regions)

  bucket = "sparecraft-fleets-${data.aws_caller_identity.this.account_id}-${each.key}"
  region = each.key
}

resource "aws_s3_bucket_server_side_encryption_configuration" "fleets" {
  for_each = aws_s3_bucket.fleets

  bucket = each.value.id
  region = each.key

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_public_access_block" "fleets" {
  for_each = aws_s3_bucket.fleets

  bucket = each.value.id
  region = each.key

  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_policy" "fleets" {
  for_each = aws_s3_bucket.fleets

  bucket = each.value.id
  region = each.key
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "TlsOnly"
      Effect    = "Deny"
      Principal = "*"
      Action    = "S3:*" # moto takes every condition for met, but compares the case of letters, which AWS does not
      Resource  = [each.value.arn, "${each.value.arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })

  depends_on = [aws_s3_bucket_public_access_block.fleets]
}

resource "aws_s3_bucket_lifecycle_configuration" "fleets" {
  for_each = aws_s3_bucket.fleets

  bucket = each.value.id
  region = each.key

  rule {
    id     = "left"
    status = "Enabled"
    filter {}

    expiration {
      days = 8
    }
    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}
