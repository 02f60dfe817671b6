import { isJsonObject, type JsonObject } from '../../base/runtime/json-object.ts'

/** Carries arguments that are not a JSON object, because the model broke off or made a mistake. */
const RAW = '_raw'
/** The only argument of a function that stands for a custom tool. */
const INPUT = 'input'

/** The JSON Schema of a function that stands for a custom tool, which takes free text. */
export const customToolSchema: JsonObject = {
  type: 'object',
  properties: { [INPUT]: { type: 'string' } },
  required: [INPUT],
  additionalProperties: false,
}

/** Returns arguments for dialects that take an object. Text that is no JSON object becomes `{"_raw": text}`. */
export function argumentsObject(text: string): JsonObject {
  if (text.trim() === '') return {}
  return parseObject(text) ?? { [RAW]: text }
}

/** Returns arguments as text: the reverse of `argumentsObject`. */
export function argumentsText(value: unknown): string {
  if (!isJsonObject(value)) return value === undefined || value === null ? '{}' : JSON.stringify(value)
  const { [RAW]: raw, ...others } = value
  return typeof raw === 'string' && isEmpty(others) && parseObject(raw) === null ? raw : JSON.stringify(value)
}

/** Whether arguments are complete, as far as their text can show it. */
export function isCompleteObject(text: string): boolean {
  return text.trimEnd().endsWith('}') && parseObject(text) !== null
}

/** Returns the arguments of a function that stands for a custom tool. */
export function customInputArguments(input: string): string {
  return JSON.stringify({ [INPUT]: input })
}

/**
 * Returns the free text for a custom tool from the arguments of the function that stands for it. Models also name the
 * only argument after the tool, such as `patch`, or write the text as a JSON string (decolua/9router issue 1371).
 */
export function customInput(functionArguments: string): string {
  const value = parseJson(functionArguments)
  if (typeof value === 'string') return value
  if (!isJsonObject(value)) return functionArguments
  if (typeof value[INPUT] === 'string') return value[INPUT]
  const [only, ...others] = Object.values(value)
  return typeof only === 'string' && others.length === 0 ? only : functionArguments
}

/** Parses a text that should be a JSON object. Returns null if it is not. */
export function parseObject(text: string): JsonObject | null {
  const value = parseJson(text)
  return isJsonObject(value) ? value : null
}

/** Returns undefined for a text that is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isEmpty(value: object): boolean {
  for (const _ in value) return false
  return true
}
