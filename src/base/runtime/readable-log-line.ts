import { styleText } from 'node:util'

type Style = Parameters<typeof styleText>[0]

/** pino's levels. Lines of the usual level, info, show none. */
const levels: Readonly<Record<number, { readonly name: string; readonly style: Style }>> = {
  10: { name: 'TRACE', style: 'dim' },
  20: { name: 'DEBUG', style: 'dim' },
  40: { name: 'WARN', style: 'yellow' },
  50: { name: 'ERROR', style: 'red' },
  60: { name: 'FATAL', style: 'red' },
}

/**
 * Formats a JSON line of the log for people: `16:04:57 WARN the job queue stopped  worker=2`. Times are local.
 *
 * @param coloured whether to add ANSI colours
 * @param withStacks whether errors show their stack, on lines of their own
 */
export function readableLogLine(
  json: string,
  { coloured, withStacks }: { coloured: boolean; withStacks: boolean },
): string {
  const { level, time, msg, ...fields } = JSON.parse(json) as Record<string, unknown>
  const paint = (style: Style, text: string) => (coloured ? styleText(style, text, { validateStream: false }) : text)
  const named = levels[Number(level)]
  const pairs = Object.entries(fields).map(([name, value]) => `${name}=${fieldText(value)}`)
  const line = [
    paint('dim', new Date(Number(time)).toTimeString().slice(0, 8)),
    ...(named ? [paint(named.style, named.name)] : []),
    printable(String(msg ?? '')),
    ...(pairs.length > 0 ? [` ${paint('dim', printable(pairs.join(' ')))}`] : []),
  ].join(' ')
  const stacks = withStacks ? Object.values(fields).flatMap(stackLines) : []
  return [line, ...stacks.map(text => paint('dim', printable(text))), ''].join('\n')
}

/** Formats words as they are, an error as its message, and anything else as JSON. */
function fieldText(value: unknown): string {
  if (typeof value === 'string' && /^[^\s"=]+$/.test(value)) return value
  if (!isError(value)) return JSON.stringify(value)
  return JSON.stringify(value.code === undefined ? value.message : `${value.message} (${value.code})`)
}

function stackLines(value: unknown): string[] {
  return isError(value) ? value.stack.split('\n').slice(1) : []
}

/** Recognises the fields of an error, as `createLog` writes them. */
function isError(
  value: unknown,
): value is { readonly message: string; readonly code?: string; readonly stack: string } {
  return typeof value === 'object' && value !== null && 'stack' in value && typeof value.stack === 'string'
}

/** Escapes control characters: a message may quote a server, which must not control the terminal. */
function printable(text: string): string {
  return text.replace(/\p{C}/gu, character => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`)
}
