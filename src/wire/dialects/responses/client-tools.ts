import type { ClientToolType, Tool } from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { parseJson } from '../tool-arguments.ts'

// Tools that OpenAI's models know without a definition, and that the client runs. Models of other dialects get functions.

/** Returns the function for a tool of a request; null if a server would run the tool, or if it is not one of these. */
export function clientTool(tool: JsonObject): Tool | null {
  if (!isClientTool(tool)) return null
  const { name, describe, parameters } = kinds[tool.type]
  return {
    kind: 'function',
    name,
    description: describe(tool),
    parameters,
    strict: null,
    clientTool: tool.type,
  }
}

/** Whether the client runs a tool. A shell in a container runs at OpenAI, for a price. */
export function isClientTool(tool: JsonObject): tool is JsonObject & { type: ClientToolType } {
  const { type, environment } = tool
  if (!isClientToolType(type)) return false
  return type !== 'shell' || !isJsonObject(environment) || environment.type === 'local'
}

function isClientToolType(type: unknown): type is ClientToolType {
  return typeof type === 'string' && Object.hasOwn(kinds, type)
}

/** Returns the name of the function that stands for a type of `tool_choice`; null for other types. */
export function clientToolName(type: unknown): string | null {
  // The choice has a name more than the tools.
  if (type === 'computer_use') return 'computer'
  return isClientToolType(type) ? kinds[type].name : null
}

/** Whether a tool returns pictures of a screen. */
export function returnsPictures({ clientTool, isPredefined }: Tool): boolean {
  return clientTool === 'computer' || clientTool === 'computer_use_preview' || isPredefined === true
}

const callTypes: ReadonlySet<unknown> = new Set([
  ...['apply_patch_call', 'shell_call', 'local_shell_call', 'computer_call'],
])

/** Whether an item is the call of one of these tools. */
export function isClientCall({ type }: JsonObject): boolean {
  return callTypes.has(type)
}

/** Returns the call of the function that stands for the call of a tool. */
export function functionCallOf(item: JsonObject): { readonly name: string; readonly arguments: string } {
  const name = String(item.type).replace(/_call$/, '')
  return { name, arguments: JSON.stringify(argumentsOf(item)) }
}

function argumentsOf({ type, operation, action, actions, pending_safety_checks: checks }: JsonObject): JsonObject {
  if (type === 'apply_patch_call') return objectOf(operation)
  const { type: _, ...command } = objectOf(action)
  if (type !== 'computer_call') return command
  return {
    ...(Array.isArray(actions) ? { actions } : objectOf(action)),
    ...(Array.isArray(checks) && checks.length > 0 && { pending_safety_checks: checks }),
  }
}

/** An item for a call, and the events between its start and its end. */
export interface ClientCallItem {
  readonly idPrefix: string
  readonly type: string
  /** The fields besides id, type, call id and status. */
  readonly content: JsonObject
  /** The same at the start of the item. */
  readonly started: JsonObject
  /** The types and fields of the events, without the place of the item. */
  readonly events: readonly (readonly [type: string, fields: JsonObject])[]
}

/**
 * Returns the item for the call of the function that stands for a tool. Models of other vendors make mistakes: what cannot
 * be read does nothing when the client runs it.
 */
export function clientCallItem(type: ClientToolType, functionArguments: string): ClientCallItem {
  return kinds[type].write(objectOf(parseJson(functionArguments)), functionArguments)
}

interface ClientToolKind {
  readonly name: string
  readonly parameters: JsonObject
  describe(tool: JsonObject): string
  /** @param text the arguments as the model wrote them */
  write(given: JsonObject, text: string): ClientCallItem
}

const text = (description: string): JsonObject => ({ type: 'string', description })
const integer = (description: string): JsonObject => ({ type: 'integer', description })
const texts = (description: string): JsonObject => ({ type: 'array', items: { type: 'string' }, description })
const objectWith = (properties: JsonObject, required: readonly string[]): JsonObject => ({
  ...{ type: 'object', properties, required, additionalProperties: false },
})

const actionTypes = [
  ...['click', 'double_click', 'drag', 'keypress', 'move', 'screenshot', 'scroll', 'type', 'wait'],
] as const
const point = { x: integer('Pixels from the left.'), y: integer('Pixels from the top.') }
const action = objectWith(
  {
    type: { type: 'string', enum: actionTypes },
    ...point,
    button: { type: 'string', enum: ['left', 'right', 'wheel', 'back', 'forward'], description: 'For click.' },
    path: { type: 'array', items: objectWith(point, ['x', 'y']), description: 'The points of a drag.' },
    keys: texts('The keys of a keypress, or those to hold during another action.'),
    scroll_x: integer('Pixels to scroll to the right.'),
    scroll_y: integer('Pixels to scroll down.'),
    text: text('The text to type.'),
  },
  ['type'],
)
const USES_SCREEN = 'Uses a computer by its screen, mouse and keyboard. The result is a picture of the screen.'

const kinds: Readonly<Record<ClientToolType, ClientToolKind>> = {
  apply_patch: {
    name: 'apply_patch',
    parameters: objectWith(
      {
        type: { type: 'string', enum: ['create_file', 'update_file', 'delete_file'] },
        path: text('The path of the file, relative to the workspace.'),
        diff: text(
          'For create_file: every line of the file with a + before it. For update_file: sections that begin with a line @@, then lines of context with a space before them, removed lines with - and added lines with +. No line numbers, no file headers.',
        ),
      },
      ['type', 'path'],
    ),
    describe: () => 'Creates, updates or deletes one file by a diff.',
    write: writePatch,
  },
  shell: {
    name: 'shell',
    parameters: objectWith(
      {
        commands: texts('The shell commands to run.'),
        timeout_ms: integer('The time limit of each command, in milliseconds.'),
        max_output_length: integer('The most characters of output to return.'),
      },
      ['commands'],
    ),
    describe: ({ environment }) => `Runs shell commands on the machine of the user.${skillsOf(environment)}`,
    write: writeShell,
  },
  local_shell: {
    name: 'local_shell',
    parameters: objectWith(
      {
        command: texts('The program and its arguments.'),
        working_directory: text('The directory to run the command in.'),
        timeout_ms: integer('The time limit in milliseconds.'),
        user: text('The user to run the command as.'),
      },
      ['command'],
    ),
    describe: () => 'Runs a command on the machine of the user.',
    write: writeLocalShell,
  },
  computer: {
    name: 'computer',
    parameters: objectWith({ actions: { type: 'array', items: action, description: 'What to do, in order.' } }, [
      'actions',
    ]),
    describe: () => USES_SCREEN,
    write: given => writeComputer(given, 'actions'),
  },
  computer_use_preview: {
    name: 'computer',
    parameters: action,
    describe: ({ display_width: width, display_height: height, environment }) =>
      [
        USES_SCREEN,
        ...(typeof width === 'number' && typeof height === 'number' ? [`It has ${width} x ${height} pixels.`] : []),
        ...(typeof environment === 'string' ? [`It is of the kind ${environment}.`] : []),
      ].join(' '),
    write: given => writeComputer(given, 'action'),
  },
}

/** Skills are folders with instructions that the model may read with the shell. */
function skillsOf(environment: unknown): string {
  const skills = isJsonObject(environment) && Array.isArray(environment.skills) ? environment.skills : []
  const lines = skills.filter(isJsonObject).map(({ name, description, path }) => `${name} (${path}): ${description}`)
  return lines.length === 0 ? '' : ` Read a skill from its folder before you use it.\n${lines.join('\n')}`
}

/** Without a type, a call with a diff updates a file. No other mistake may delete one. */
function writePatch(given: JsonObject, whole: string): ClientCallItem {
  const operation = isJsonObject(given.operation) ? given.operation : given
  const path = textOf(operation.path)
  const { type, path: _path, diff: _diff, ...others } = operation
  const isKnown = path !== '' && (type === 'create_file' || type === 'update_file' || type === 'delete_file')
  const kind = isKnown ? type : 'update_file'
  const diff = typeof operation.diff === 'string' ? operation.diff : path === '' ? whole : ''
  const written = (text: string) => ({
    operation: { type: kind, path, ...(kind !== 'delete_file' && { diff: text }), ...(isKnown && others) },
  })
  const event = 'response.apply_patch_call_operation_diff'
  return {
    idPrefix: 'apc',
    type: 'apply_patch_call',
    content: written(diff),
    started: written(''),
    events:
      kind === 'delete_file'
        ? []
        : [
            [`${event}.delta`, { delta: diff }],
            [`${event}.done`, { diff }],
          ],
  }
}

function writeShell(given: JsonObject): ClientCallItem {
  const asked = isJsonObject(given.action) ? given.action : given
  const single = textList(asked.command)
  const commands = textList(asked.commands) ?? (single === null ? [] : [single.join(' ')])
  const written = (list: readonly string[]) => ({
    action: {
      commands: list,
      max_output_length: numberOrNull(asked.max_output_length),
      timeout_ms: numberOrNull(asked.timeout_ms),
    },
    environment: { type: 'local' },
  })
  const event = 'response.shell_call_command'
  return {
    idPrefix: 'sh',
    type: 'shell_call',
    content: written(commands),
    started: written([]),
    events: commands.flatMap((command, index) => [
      [`${event}.added`, { command_index: index, command: '' }] as const,
      [`${event}.delta`, { command_index: index, delta: command }] as const,
      [`${event}.done`, { command_index: index, command }] as const,
    ]),
  }
}

function writeLocalShell(given: JsonObject): ClientCallItem {
  const asked = isJsonObject(given.action) ? given.action : given
  const { command, working_directory: directory, user, env } = asked
  const written = {
    action: {
      type: 'exec',
      // A model that writes one text means a line of a shell.
      command: typeof command === 'string' ? ['bash', '-lc', command] : (textList(command) ?? []),
      env: objectOf(env),
      timeout_ms: numberOrNull(asked.timeout_ms),
      user: typeof user === 'string' ? user : null,
      working_directory: typeof directory === 'string' ? directory : null,
    },
  }
  return { idPrefix: 'lsh', type: 'local_shell_call', content: written, started: written, events: [] }
}

/** An action that cannot be read becomes a look at the screen. */
function writeComputer(given: JsonObject, field: 'action' | 'actions'): ClientCallItem {
  const { pending_safety_checks: checks, ...single } = given
  const list = Array.isArray(given.actions) ? given.actions : [isJsonObject(given.action) ? given.action : single]
  const readable = list.filter(each => isJsonObject(each) && actionTypes.includes(each.type as never))
  const actions = readable.length > 0 ? readable : [{ type: 'screenshot' }]
  const written = {
    [field]: field === 'actions' ? actions : actions[0],
    pending_safety_checks: Array.isArray(checks) ? checks.filter(isJsonObject) : [],
  }
  return { idPrefix: 'cu', type: 'computer_call', content: written, started: written, events: [] }
}

function objectOf(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {}
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** Reads a list of texts; one text is a list of one. Null if it is neither. */
function textList(value: unknown): readonly string[] | null {
  if (typeof value === 'string') return [value]
  return Array.isArray(value) && value.length > 0 && value.every(each => typeof each === 'string') ? value : null
}

function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}
