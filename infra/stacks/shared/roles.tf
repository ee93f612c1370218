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
  told = { for role, file in local.role_files : role => jsondecode(file(file)) }

  roles = {
    for role, told in local.told : role => {
      tier        = try(told.tier, true)
      protocol    = try(told.protocol, "")
      port        = try(told.port, 0)
      arbiter     = try(told.arbiter, true)
      session     = merge({ user = "", password = "", database = "" }, try(told.session, {}))
      environment = try(told.environment, {})
      places      = { for place in ["first", "others"] : place => try(told.places[place].environment, {}) }
      settings    = { for name, setting in try(told.settings, {}) : name => tostring(setting.default) }
      calls = [for call in try(told.calls, []) : {
        roles       = try(call.roles, [])
        required    = try(call.required, false)
        environment = try(call.environment, {})
      }]

      # The role whose folder and image it has: its own, but for a role that is another one's under a second name.
      image_role = try(told.image_of, role)
      folder     = dirname(lookup(local.role_files, try(told.image_of, role), ""))
      stock      = try(told.image, local.told[told.image_of].image, null)
      context    = try(told.context, local.told[told.image_of].context, null)
      process    = try(told.process, local.told[told.image_of].process, {})
      files      = try(told.files, local.told[told.image_of].files, {})
      build = merge([
        for target, source in try(local.told[told.image_of].build, told.build, {}) : endswith(target, "/") ? {
          for found in fileset(local.root, source) : "${target}${basename(found)}" => "${local.root}/${found}"
        } : { (target) = "${local.root}/${source}" }
      ]...)
      # True if its machines are told of each other.
      peers = length(regexall("\\{(first|peers)\\}", join(" ", concat(
        [jsonencode(told)], [for source in values(try(told.files, {})) : try(file("${dirname(local.role_files[role])}/${source}"), "")],
      )))) > 0
      # A design's own role must not take the tag of one of ours.
      own = !startswith(lookup(local.role_files, try(told.image_of, role), ""), "${local.root}/")
    }
  }

  # contracts/ is generated: what the models of role.json know.
  role_schema = jsondecode(file("${local.root}/contracts/role.schema.json"))
  role_keys = {
    role    = keys(local.role_schema.properties)
    call    = keys(local.role_schema["$defs"].Call.properties)
    session = keys(local.role_schema["$defs"].Session.properties)
    context = keys(local.role_schema["$defs"].Context.properties)
    process = keys(local.role_schema["$defs"].Process.properties)
    places  = keys(local.role_schema["$defs"].Places.properties)
    place   = keys(local.role_schema["$defs"].Place.properties)
  }

  # Keys that have no meaning.
  unknown_role_keys = {
    for role, told in local.told : role => flatten([
      for part in concat(
        [{ at = "", keys = keys(told), known = local.role_keys.role }],
        [for call in try(told.calls, []) : { at = "calls.", keys = keys(call), known = local.role_keys.call }],
        [{ at = "session.", keys = keys(try(told.session, {})), known = local.role_keys.session }],
        [{ at = "context.", keys = keys(try(told.context, {})), known = local.role_keys.context }],
        [{ at = "process.", keys = keys(try(told.process, {})), known = local.role_keys.process }],
        [{ at = "places.", keys = keys(try(told.places, {})), known = local.role_keys.places }],
        [for name, place in try(told.places, {}) : { at = "places.${name}.", keys = keys(place), known = local.role_keys.place }],
      ) : [for key in setsubtract(part.keys, part.known) : "${part.at}${key}"]
    ])
  }

  # Values that cannot be.
  impossible_in_role = {
    for role, one in local.roles : role => flatten([
      contains(local.arbiter_contract.protocols[*].name, one.protocol) ? [] : ["protocol \"${one.protocol}\""],
      try(one.port >= 1 && one.port <= 65535 && floor(one.port) == one.port, false) ? [] : ["port ${one.port}"],
      contains(keys(local.told), one.image_role) && !can(local.told[local.told[role].image_of].image_of) ? [] : ["image_of \"${one.image_role}\""],
      [for source in values(one.files) : "files \"${source}\"" if !fileexists("${one.folder}/${source}")],
      [for call in one.calls : [for name in call.roles : "calls \"${name}\"" if !contains(keys(local.told), name)]],
    ])
  }

  tier_roles = sort([for role, one in local.roles : role if one.tier])

  # Role to each role that its tiers may call: the place in `calls` of what is meant for it, or -1.
  call_of = {
    for role, one in local.roles : role => {
      for called in local.tier_roles : called => concat([for k, call in one.calls : k if length(call.roles) == 0 || contains(call.roles, called)], [-1])[0]
    }
  }
}
