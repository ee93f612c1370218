# A bucket for fleets' states, instead of a laptop: encrypted, with a lock, closed to all but TLS. A
# state holds the key of the fleet's authority. README.md says how a stack is told to use it.

data "aws_caller_identity" "this" {}

resource "aws_s3_bucket" "states" {
  bucket = "sparecraft-states-${data.aws_caller_identity.this.account_id}"
}

resource "aws_s3_bucket_versioning" "states" {
  bucket = aws_s3_bucket.states.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "states" {
  bucket = aws_s3_bucket.states.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "aws:kms" # the account's own key for S3: its use is on record
    }
  }
}

resource "aws_s3_bucket_public_access_block" "states" {
  bucket = aws_s3_bucket.states.id

  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_policy" "states" {
  bucket = aws_s3_bucket.states.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "TlsOnly"
      Effect    = "Deny"
      Principal = "*"
      Action    = "S3:*"
      Resource  = [aws_s3_bucket.states.arn, "${aws_s3_bucket.states.arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })

  depends_on = [aws_s3_bucket_public_access_block.states]
}

resource "aws_iam_policy" "states" {
  name        = "sparecraft-user-states"
  description = "Permissions of users who make fleets, on their states"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "List"
        Effect    = "Allow"
        Action    = "s3:ListBucket"
        Resource  = aws_s3_bucket.states.arn
        Condition = { StringEquals = { "aws:ResourceAccount" = data.aws_caller_identity.this.account_id } }
      },
      {
        Sid       = "ReadWriteLock"
        Effect    = "Allow"
        Action    = ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
        Resource  = "${aws_s3_bucket.states.arn}/*"
        Condition = { StringEquals = { "aws:ResourceAccount" = data.aws_caller_identity.this.account_id } }
      },
    ]
  })
}

output "backend" {
  description = "Settings for a stack's backend block of type s3, to keep states here."
  value = {
    bucket       = aws_s3_bucket.states.id
    region       = var.region
    encrypt      = true
    use_lockfile = true
  }
}
