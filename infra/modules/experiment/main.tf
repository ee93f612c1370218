# One experiment: on a fleet of the run's own, or on one that this configuration keeps.

locals {
  root   = var.checkout == null ? "${path.module}/../../.." : var.checkout
  folder = fileexists("${var.design}/fleet.tfvars") ? var.design : "${local.root}/experiments/designs/${var.design}"
  spec   = var.keep_fleet ? provider::terraform::decode_tfvars(file("${local.folder}/fleet.tfvars")) : null
  own    = length(fileset(local.folder, "roles/*/role.json")) > 0 ? [abspath("${local.folder}/roles")] : []
}

module "fleet" {
  source = "../fleet"
  count  = var.keep_fleet ? 1 : 0

  checkout   = var.checkout
  roles_dirs = concat(["infra/roles"], local.own)

  experiment    = local.spec.experiment
  scheme        = local.spec.scheme
  tiers         = local.spec.tiers
  arbiters      = try(local.spec.arbiters, {})
  entries       = try(local.spec.entries, null)
  data_cidr     = try(local.spec.data_cidr, null)
  control_cidr  = try(local.spec.control_cidr, null)
  entry_port    = try(local.spec.entry_port, null)
  entry_ports   = try(local.spec.entry_ports, null)
  influxdb_port = try(local.spec.influxdb_port, null)
}

resource "fleet_run" "this" {
  design       = var.design
  results      = var.results
  seed         = var.seed
  quiet_wait_s = var.quiet_wait_s
  triggers     = var.triggers
  fail_on_slo  = var.fail_on_slo
  command      = var.command

  fleet    = var.keep_fleet ? jsonencode(module.fleet[0].fleet) : null
  identity = var.keep_fleet ? jsonencode(module.fleet[0].identity) : null

  depends_on = [module.fleet] # its outputs are known before its machines are there
}
