import { parseSync } from 'oxc-parser'

interface Node {
  readonly type: string
  readonly start: number
  readonly [key: string]: unknown
}

/** Attributes and properties that the console shows. */
const shown = new Set([
  ...['title', 'label', 'description', 'action', 'text', 'what', 'aria-label', 'placeholder', 'reader', 'alt'],
  ...['hint', 'aria-valuetext', 'message', 'word', 'done', 'notice', 'sent', 'none', 'validationError', 'cell'],
])

/** Words that are the same in each language: names, units, and what is typed as it stands. */
const sameEverywhere = [
  ...[/^(?:Switchyard|OpenAI|Anthropic|Firefox|Chrome|Safari|Edg|OPR|Android|iPhone|iPad|Windows|Mac OS X|Linux)$/],
  ...[/^(?:USD|UTC|API|CSV|JSON|URL|kB|MB|ms|min|s|B|p50|p95|fp\d|int\d|Ctrl K|Ctrl\+K)$/],
  // Codes, addresses, commands and examples of them.
  ...[/^--?[a-z]/, /Authorization: Bearer$/, /\[role=/, /^\d+px /, /"Atkinson/],
  ...[/^[a-z0-9_./*-]*$/, /^[X-]+$/, /^https?:/, /^sk-sy-/, /^(?:switchyard|curl|umask|npm) /],
]

/**
 * Returns the texts of a source file that no macro of Lingui marks, as `file:line: text`: text of elements, what attributes
 * and properties show, and each string with several words.
 */
export function unmarkedTexts(file: string, source: string): string[] {
  // Programs in other languages.
  if (file === 'parts/chat-code.ts') return []
  const found: string[] = []
  const visit = (node: Node, isShown: boolean) => {
    const { type } = node
    if (/^(?:Import|Export(?:All|Named)|TS(?!As|Satisfies|NonNull))/.test(type) && node.declaration == null) return
    if (type === 'TaggedTemplateExpression' && nameOf(node.tag) === 't') {
      for (const each of (node.quasi as Node).expressions as Node[]) visit(each, false)
      return
    }
    if (type === 'BinaryExpression' && node.operator !== '+') return
    if (type === 'Property' && nameOf(node.key) === 'queryKey') return
    if (type === 'CallExpression' && /^(?:t|plural|select)$/.test(nameOf(node.callee))) return
    if (type === 'JSXElement' && /^(?:Trans|Plural)$/.test(nameOf((node.openingElement as Node).name))) {
      visitMarked(node)
      return
    }
    for (const text of textsOf(node)) {
      const several = /[A-Za-z]{2,}[,.:;]? +[A-Za-z]{2,}/.test(text)
      if (/[A-Za-z]{2,}/.test(text) && (isShown || several) && !isSame(text))
        found.push(`${file}:${source.slice(0, node.start).split('\n').length}: ${text}`)
    }
    for (const [key, child] of childrenOf(node)) visit(child, shows(node, key, isShown))
  }
  // Within <Trans>, the text is marked. Attributes of its elements and strings of its expressions are not.
  const visitMarked = (node: Node) => {
    for (const [key, child] of childrenOf(node)) {
      if (child.type === 'JSXText') continue
      if (child.type === 'JSXElement' && nameOf((child.openingElement as Node).name) === 'Plural') continue
      if (child.type === 'JSXElement' || child.type === 'JSXFragment') visitMarked(child)
      else if (key === 'children') visit(child, true)
      else if (key === 'openingElement') visit(child, false)
    }
  }
  visit(parseSync(file, source).program as unknown as Node, false)
  return found
}

function textsOf(node: Node): string[] {
  if (node.type === 'JSXText') return [String(node.value).replaceAll(/\s+/g, ' ').trim()]
  if (node.type === 'Literal' && typeof node.value === 'string') return [node.value]
  if (node.type === 'TemplateElement') return [(node.value as { cooked: string }).cooked]
  return []
}

/** Whether a child is on the screen, if it is a string. */
function shows(node: Node, key: string, isShown: boolean): boolean {
  switch (node.type) {
    case 'JSXElement':
    case 'JSXFragment':
      return key === 'children'
    case 'JSXAttribute':
      return key === 'value' && shown.has(nameOf(node.name))
    case 'Property':
      return key === 'value' && shown.has(nameOf(node.key))
    case 'ConditionalExpression':
      return key !== 'test' && isShown
    case 'LogicalExpression':
      return (key === 'right' || node.operator !== '&&') && isShown
    case 'ArrowFunctionExpression':
      return key === 'body' && isShown
    case 'TemplateLiteral':
    case 'JSXExpressionContainer':
    case 'ParenthesizedExpression':
    case 'TSAsExpression':
      return isShown
    default:
      return false
  }
}

function* childrenOf(node: Node): Iterable<[string, Node]> {
  for (const [key, value] of Object.entries(node))
    for (const child of Array.isArray(value) ? value : [value])
      if (typeof (child as Node | null)?.type === 'string') yield [key, child as Node]
}

function nameOf(node: unknown): string {
  const { name, value } = node as { name?: unknown; value?: unknown }
  return String(typeof name === 'string' ? name : (value ?? ''))
}

function isSame(text: string): boolean {
  const word = text.replaceAll(/^[\s\d.,:;·–—…/%()+×=<>~|→←#“”"'-]+|[\s\d.,:;·–—…/%()+×=<>~|→←#“”"'-]+$/g, '')
  return sameEverywhere.some(pattern => pattern.test(word) || pattern.test(text.trim()))
}
