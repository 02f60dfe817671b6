import type { Tool } from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { camelKeys } from './camel-keys.ts'

/**
 * Returns the functions that Google's models know without a definition, for the tool `computerUse`: the client runs them in a
 * browser. Null if they are not known, as for another environment.
 */
export function computerUseTools(tool: unknown): readonly Tool[] | null {
  const { environment, excludedPredefinedFunctions: excluded } = isJsonObject(tool) ? camelKeys(tool) : {}
  if (environment !== undefined && environment !== 'ENVIRONMENT_BROWSER') return null
  const left = new Set(Array.isArray(excluded) ? excluded : [])
  return Object.entries(functions)
    .filter(([name]) => !left.has(name))
    .map(([name, { does, properties, required = Object.keys(properties) }]) => ({
      kind: 'function',
      name,
      description: `${does} ${RESULT}`,
      parameters: { type: 'object', properties, ...(required.length > 0 && { required }) },
      strict: null,
      isPredefined: true,
    }))
}

const RESULT = 'Part of the use of a web browser: the result has a picture of its screen.'

interface BrowserFunction {
  readonly does: string
  readonly properties: JsonObject
  /** Default: all. */
  readonly required?: readonly string[]
}

const text = { type: 'string' }
const flag = { type: 'boolean' }
const x = { type: 'integer', description: '0 at the left edge of the screen to 999 at the right.' }
const y = { type: 'integer', description: '0 at the top of the screen to 999 at the bottom.' }
const direction = { type: 'string', enum: ['up', 'down', 'left', 'right'] }

/** Google, documentation of the Gemini API, "Computer Use": supported UI actions. */
const functions: Readonly<Record<string, BrowserFunction>> = {
  open_web_browser: { does: 'Opens the browser.', properties: {} },
  wait_5_seconds: { does: 'Waits for five seconds.', properties: {} },
  go_back: { does: 'Goes back to the page before.', properties: {} },
  go_forward: { does: 'Goes forward to the next page.', properties: {} },
  search: { does: 'Opens the start page of the search engine.', properties: {} },
  navigate: { does: 'Opens a page.', properties: { url: text } },
  click_at: { does: 'Clicks.', properties: { x, y } },
  hover_at: { does: 'Moves the mouse.', properties: { x, y } },
  type_text_at: {
    does: 'Clicks into a field and types a text, by default after clearing the field, and presses Enter.',
    properties: { x, y, text, press_enter: flag, clear_before_typing: flag },
    required: ['x', 'y', 'text'],
  },
  key_combination: { does: 'Presses keys, such as control+a.', properties: { keys: text } },
  scroll_document: { does: 'Scrolls the page.', properties: { direction } },
  scroll_at: {
    does: 'Scrolls a part of the page.',
    properties: { x, y, direction, magnitude: { type: 'integer', description: '0 to 999; 800 if left out.' } },
    required: ['x', 'y', 'direction'],
  },
  drag_and_drop: {
    does: 'Drags from one place to another.',
    properties: { x, y, destination_x: x, destination_y: y },
  },
}
