# The roles: what the role.json of each folder says, defaults filled in. The stacks have this file by a
# symbolic link. infra/roles/README.md says what each key means.

variable "roles_dirs" {
  type        = list(string)
  default     = ["infra/roles"]
  description = "Folders of roles, absolute or from the project's root. A role of a later folder takes the place of one of the same name: `sparecraft` adds the design's own roles/."

  validation {
    condition     = alltrue([for dir in var.roles_dirs : length(fileset(startswith(dir, "/") ? dir : "${local.root}/${dir}", "*/role.json")) > 0])
    error_message = "Expected folders with a ROLE/role.json in each of them (got ${join(", ", var.roles_dirs)})."
  }
}

variable "checkout" {
  type        = string
  default     = null
  description = "Folder of a checkout of Sparecraft whose agents are built (`make build`); by default the one that this module is in. A module from git has none of its own."

  validation {
    condition     = var.checkout == null || fileexists("${coalesce(var.checkout, ".")}/build/bin/nodeagent")
    error_message = "Expected a checkout of Sparecraft with build/bin/nodeagent, which `make build` makes (got ${var.checkout == null ? "none" : var.checkout})."
  }
}

locals {
  root = var.checkout == null ? "${path.module}/../../.." : var.checkout

  # contracts/ is generated: what the arbiter speaks and takes.
  arbiter_contract = jsondecode(file("${local.root}/contracts/policies.json"))

  role_files = merge([
    for dir in [for given in var.roles_dirs : startswith(given, "/") ? given : "${local.root}/${given}"] : {
      for file in fileset(dir, "*/role.json") : dirname(file) => "${dir}/${file}"
    }
  ]...)

  # As written.
  declared_roles = { for role, file in local.role_files : role => jsondecode(file(file)) }

  roles = {
    for role, declared in local.declared_roles : role => {
      tier        = try(declared.tier, true)
      protocol    = try(declared.protocol, "")
      port        = try(declared.port, 0)
      arbiter     = try(declared.arbiter, true)
      session     = merge({ user = "", password = "", database = "" }, try(declared.session, {}))
      environment = try(declared.environment, {})
      promoted_by = can(declared.promotion) ? try(declared.promotion.role, role) : null
      places      = { for place in ["first", "others"] : place => try(declared.places[place].environment, {}) }
      settings    = { for name, setting in try(declared.settings, {}) : name => tostring(setting.default) }
      calls = [for call in try(declared.calls, []) : {
        roles       = try(call.roles, [])
        required    = try(call.required, false)
        environment = try(call.environment, {})
      }]

      # The role whose folder and image it has: its own, but for a role that is another one's under a second name.
      image_role = try(declared.image_of, role)
      folder     = dirname(lookup(local.role_files, try(declared.image_of, role), ""))
      stock      = try(declared.image, local.declared_roles[declared.image_of].image, null)
      context    = try(declared.context, local.declared_roles[declared.image_of].context, null)
      process    = try(declared.process, local.declared_roles[declared.image_of].process, {})
      files      = try(declared.files, local.declared_roles[declared.image_of].files, {})
      build = merge([
        for target, source in try(local.declared_roles[declared.image_of].build, declared.build, {}) : endswith(target, "/") ? {
          for found in fileset(local.root, source) : "${target}${basename(found)}" => "${local.root}/${found}"
        } : { (target) = "${local.root}/${source}" }
      ]...)
      # True if its machines are told of each other.
      peers = length(regexall("\\{(first|peers)\\}", join(" ", concat(
        [jsonencode(declared)], [for source in values(try(declared.files, {})) : try(file("${dirname(local.role_files[role])}/${source}"), "")],
      )))) > 0
      # A design's own role must not take the tag of one of ours.
      own = !startswith(lookup(local.role_files, try(declared.image_of, role), ""), "${local.root}/")
    }
  }

  # contracts/ is generated: what the models of role.json know.
  role_schema = jsondecode(file("${local.root}/contracts/role.schema.json"))
  role_keys = {
    role      = keys(local.role_schema.properties)
    call      = keys(local.role_schema["$defs"].Call.properties)
    session   = keys(local.role_schema["$defs"].Session.properties)
    context   = keys(local.role_schema["$defs"].Context.properties)
    process   = keys(local.role_schema["$defs"].Process.properties)
    promotion = keys(local.role_schema["$defs"].Promotion.properties)
    places    = keys(local.role_schema["$defs"].Places.properties)
    place     = keys(local.role_schema["$defs"].Place.properties)
  }

  # Keys that have no meaning.
  unknown_role_keys = {
    for role, declared in local.declared_roles : role => flatten([
      for part in concat(
        [{ at = "", keys = keys(declared), known = local.role_keys.role }],
        [for call in try(declared.calls, []) : { at = "calls.", keys = keys(call), known = local.role_keys.call }],
        [{ at = "session.", keys = keys(try(declared.session, {})), known = local.role_keys.session }],
        [{ at = "promotion.", keys = keys(try(declared.promotion, {})), known = local.role_keys.promotion }],
        [{ at = "context.", keys = keys(try(declared.context, {})), known = local.role_keys.context }],
        [{ at = "process.", keys = keys(try(declared.process, {})), known = local.role_keys.process }],
        [{ at = "places.", keys = keys(try(declared.places, {})), known = local.role_keys.places }],
        [for name, place in try(declared.places, {}) : { at = "places.${name}.", keys = keys(place), known = local.role_keys.place }],
      ) : [for key in setsubtract(part.keys, part.known) : "${part.at}${key}"]
    ])
  }

  # Values that cannot be.
  impossible_in_role = {
    for role, entry in local.roles : role => flatten([
      contains(local.arbiter_contract.protocols[*].name, entry.protocol) ? [] : ["protocol \"${entry.protocol}\""],
      try(entry.port >= 1 && entry.port <= 65535 && floor(entry.port) == entry.port, false) ? [] : ["port ${entry.port}"],
      contains(keys(local.declared_roles), entry.image_role) && !can(local.declared_roles[local.declared_roles[role].image_of].image_of) ? [] : ["image_of \"${entry.image_role}\""],
      [for source in values(entry.files) : "files \"${source}\"" if !fileexists("${entry.folder}/${source}")],
      [for call in entry.calls : [for name in call.roles : "calls \"${name}\"" if !contains(keys(local.declared_roles), name)]],
    ])
  }

  tier_roles = sort([for role, entry in local.roles : role if entry.tier])

  # Role to each role that its tiers may call: the place in `calls` of what is meant for it, or -1.
  call_of = {
    for role, entry in local.roles : role => {
      for called in local.tier_roles : called => concat([for k, call in entry.calls : k if length(call.roles) == 0 || contains(call.roles, called)], [-1])[0]
    }
  }
}
