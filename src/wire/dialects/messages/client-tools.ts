import type { SourceRequest } from '../../../base/domain/chat-job.ts'
import type { Tool } from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject, jsonText } from '../../../base/runtime/json-object.ts'
import { type MessagesToolKind, messagesToolKind } from './anthropic-tools.ts'
import { cacheOf } from './read-blocks.ts'

/** Returns a tool of a request as a function; none if other dialects do not get it. */
export function readTool(tool: JsonObject): Tool[] {
  const kind = messagesToolKind(tool)
  // Offers without `native_tools` are never asked for a request with such tools.
  if (kind === 'search' || kind === 'native') return []
  const known = kind === 'function' ? null : kinds[kind](tool)
  const schema = known?.parameters ?? tool.input_schema
  return [
    {
      kind: 'function',
      name: jsonText(tool.name),
      description: typeof tool.description === 'string' ? tool.description : (known?.description ?? null),
      parameters: isJsonObject(schema) ? schema : null,
      strict: known === null && typeof tool.strict === 'boolean' ? tool.strict : null,
      ...cacheOf(tool),
    },
  ]
}

/** Returns what routing and refusals need to know of the tools. */
export function namedTools(
  tools: readonly JsonObject[],
): Pick<SourceRequest, 'nativePart' | 'pictureTool' | 'hasKnownTools'> {
  const firstOf = (kind: MessagesToolKind) => tools.find(tool => messagesToolKind(tool) === kind)?.type
  const [native, picture] = [firstOf('native'), firstOf('computer')]
  return {
    ...(typeof native === 'string' && { nativePart: native.slice(0, 64) }),
    ...(typeof picture === 'string' && { pictureTool: picture }),
    ...(tools.some(isKnownTool) && { hasKnownTools: true }),
  }
}

function isKnownTool(tool: JsonObject): boolean {
  const kind = messagesToolKind(tool)
  return kind !== 'function' && kind !== 'search'
}

/** The tools that Anthropic's models know without a definition, for models that were not trained on them. */
type ClientToolKind = Exclude<MessagesToolKind, 'function' | 'search' | 'native'>

const text = (description: string): JsonObject => ({ type: 'string', description })
const integer = (description: string): JsonObject => ({ type: 'integer', description })
const numbers = (description: string): JsonObject => ({ type: 'array', items: { type: 'integer' }, description })
const choice = (values: readonly string[]): JsonObject => ({ type: 'string', enum: values })
const objectWith = (properties: JsonObject, required: readonly string[] = []): JsonObject => ({
  ...{ type: 'object', properties },
  ...(required.length > 0 && { required }),
})

/** The fields of commands that edit a text, which the editor and the memory share. */
const edits = {
  view_range: numbers('First and last line to view.'),
  file_text: text('The content of the file to create.'),
  old_str: text('The text to replace. It occurs exactly once.'),
  new_str: text('The text to put in its place.'),
  insert_line: integer('The line after which to insert.'),
  insert_text: text('The text to insert.'),
}

const mouse = ['left_click', 'right_click', 'middle_click', 'double_click', 'mouse_move', 'left_click_drag'] as const
/** Those that came with `computer_20250124`. */
const newerActions = ['triple_click', 'left_mouse_down', 'left_mouse_up', 'scroll', 'hold_key', 'wait'] as const

const kinds: Readonly<Record<ClientToolKind, (tool: JsonObject) => { description: string; parameters: JsonObject }>> = {
  bash: () => ({
    description: 'Runs a shell command.',
    parameters: objectWith({
      command: text('The shell command to run.'),
      restart: { type: 'boolean', description: 'Restart the shell instead of running a command.' },
    }),
  }),
  text_editor: ({ type }) => ({
    description: 'Views and edits text files.',
    parameters: objectWith(
      {
        command: choice([
          ...['view', 'create', 'str_replace', 'insert'],
          ...(isBefore(type, 2025_04_29) ? ['undo_edit'] : []),
        ]),
        path: text('Absolute path of the file or folder.'),
        ...edits,
      },
      ['command', 'path'],
    ),
  }),
  computer: tool => ({
    description: [
      'Uses a computer by its screen, mouse and keyboard. The action screenshot returns a picture of the screen.',
      ...(typeof tool.display_width_px === 'number' && typeof tool.display_height_px === 'number'
        ? [`The screen has ${tool.display_width_px} x ${tool.display_height_px} pixels.`]
        : []),
    ].join(' '),
    parameters: objectWith(
      {
        action: choice([
          ...['screenshot', 'key', 'type', 'cursor_position', ...mouse],
          ...(isBefore(tool.type, 2025_01_24) ? [] : newerActions),
          ...(tool.enable_zoom === true ? ['zoom'] : []),
        ]),
        coordinate: numbers('The pixel of the action, [x, y]; for left_click_drag its end.'),
        start_coordinate: numbers('The pixel where left_click_drag starts, [x, y].'),
        text: text('The text to type, or the keys to press or to hold, such as ctrl+s.'),
        ...(!isBefore(tool.type, 2025_01_24) && {
          scroll_direction: choice(['up', 'down', 'left', 'right']),
          scroll_amount: integer('How many clicks of the wheel to scroll.'),
          duration: integer('How many seconds hold_key or wait takes.'),
        }),
        ...(tool.enable_zoom === true && { region: numbers('The part of the screen to zoom into, [x0, y0, x1, y1].') }),
      },
      ['action'],
    ),
  }),
  memory: () => ({
    description:
      'Keeps files below /memories from one conversation to the next. View /memories before you start on a task, and note your progress there.',
    parameters: objectWith(
      {
        command: choice(['view', 'create', 'str_replace', 'insert', 'delete', 'rename']),
        path: text('The path below /memories; for every command but rename.'),
        ...edits,
        old_path: text('The path to rename.'),
        new_path: text('Its new path.'),
      },
      ['command'],
    ),
  }),
}

/** Whether the date at the end of a type is before another, such as 20250124. */
function isBefore(type: unknown, date: number): boolean {
  return Number(String(type).slice(-8)) < date
}
