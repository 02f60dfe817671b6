import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  visit,
} from 'yaml'
import { isJsonObject } from '../../base/runtime/json-object.ts'
import { keyPath } from '../../base/runtime/key-path.ts'

/** A problem in the configuration and where it is. */
export interface ConfigProblem {
  /** Path of the file, or `environment`. */
  readonly where: string
  /** 1-based; null for the environment. */
  readonly line: number | null
  /** 1-based; only set when the line alone is not enough. */
  readonly column?: number
  /** For example `endpoints[0].models[1].id`, or the name of a variable. Null for a syntax error. */
  readonly key: string | null
  /** What is wrong and what is allowed. */
  readonly message: string
}

/** A number as written by the operator, so that money is parsed from its digits and never from a float. */
export class WrittenNumber {
  readonly source: string
  constructor(source: string) {
    this.source = source
  }
}

/** Returns the value with numbers as those of JSON where that changes no digit, and as texts where it would. */
export function withPlainNumbers(value: unknown): unknown {
  if (value instanceof WrittenNumber)
    return String(Number(value.source)) === value.source ? Number(value.source) : value.source
  if (Array.isArray(value)) return value.map(withPlainNumbers)
  if (!isJsonObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withPlainNumbers(inner)]))
}

/** Stands for a value with a problem that is already reported. Its key counts as present and gets no second problem. */
export const UNREADABLE = Symbol('unreadable')

/** A parsed file: plain values with every number as a `WrittenNumber`, and the line of each key. */
export interface YamlFile {
  /** Undefined when the text is empty or not valid YAML. */
  readonly value: unknown
  readonly problems: readonly ConfigProblem[]
  /** Returns the line of the key, or of its nearest ancestor in the file. */
  lineOf(path: readonly PropertyKey[]): number
}

const DEPTH_MAX = 32

/**
 * Parses YAML and replaces `${NAME}` and `${NAME:-default}` in text from `env` (`$${` produces a literal `${`).
 * A key without a value counts as missing, so that a section may be commented out line by line.
 */
export function readYaml(text: string, file: string, env: Readonly<Record<string, string | undefined>>): YamlFile {
  const lines = new LineCounter()
  const doc = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const problems: ConfigProblem[] = doc.errors.map(error => ({
    where: file,
    line: lines.linePos(error.pos[0]).line,
    key: null,
    message:
      error.code === 'MULTIPLE_DOCS'
        ? 'begins a second document, but only one is read; remove this --- and merge the two'
        : `is not valid YAML: ${error.message}`,
  }))
  const value = problems.length > 0 ? undefined : plain(doc.contents, [], 0)
  return { value, problems, lineOf }

  function plain(node: unknown, path: readonly PropertyKey[], depth: number): unknown {
    if (depth > DEPTH_MAX) return problem(path, `is nested deeper than ${DEPTH_MAX} levels`)
    if (isAlias(node)) {
      const target = node.resolve(doc)
      return target ? plain(target, path, depth + 1) : withoutAnchor(node, path)
    }
    if (isMap(node)) {
      const entries: [string, unknown][] = []
      for (const pair of node.items) {
        const name = keyText(pair.key)
        const item = plain(pair.value, [...path, name], depth + 1)
        if (item !== undefined) entries.push([name, item])
      }
      return Object.fromEntries(entries)
    }
    if (isSeq(node)) return node.items.map((item, index) => plain(item, [...path, index], depth + 1))
    if (!isScalar(node) || node.value === null) return undefined
    if (typeof node.value === 'number') return new WrittenNumber(node.source ?? String(node.value))
    return typeof node.value === 'string' ? interpolated(node.value, path) : node.value
  }

  /** Reports an unknown anchor. If it were ignored, a mistyped anchor would silently mean the default. */
  function withoutAnchor(alias: Alias, path: readonly PropertyKey[]): typeof UNREADABLE {
    const { line, col } = lines.linePos(startOf(alias)!)
    const { source } = alias
    const anchors = [...new Set(anchorsIn(doc).map(anchor => `&${anchor}`))]
    const known = anchors.length === 0 ? 'there are no anchors' : `the anchors of the file are ${anchors.join(', ')}`
    const message = `is *${source}, but there is no anchor &${source} above; ${known}`
    problems.push({ where: file, line, column: col, key: keyPath(path) || null, message })
    return UNREADABLE
  }

  function interpolated(written: string, path: readonly PropertyKey[]): string | typeof UNREADABLE {
    const problemsBefore = problems.length
    const text = written.replace(/\$(\$\{)|\$\{([^}]*)(\}?)/g, (whole, escaped: string | undefined, inner, end) => {
      if (escaped !== undefined) return escaped
      // Without an end this is text, in which only the escapes count.
      if (end === '') return whole.replaceAll('$${', '${')
      const [, name, fallback] = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s.exec(inner) ?? []
      if (name === undefined) {
        problem(
          path,
          `has "\${${inner}}", which is neither \${NAME} nor \${NAME:-default}; write $\${ for a literal \${`,
        )
        return ''
      }
      const found = env[name] || fallback
      if (found === undefined) {
        problem(path, `needs the environment variable ${name}, which is not set; set it or write \${${name}:-default}`)
      }
      return found ?? ''
    })
    return problems.length > problemsBefore ? UNREADABLE : text
  }

  function problem(path: readonly PropertyKey[], message: string): typeof UNREADABLE {
    problems.push({ where: file, line: lineOf(path), key: keyPath(path) || null, message })
    return UNREADABLE
  }

  function lineOf(path: readonly PropertyKey[]): number {
    let at: unknown = doc.contents
    let offset = startOf(at)
    for (const step of path) {
      if (isAlias(at)) at = at.resolve(doc)
      if (isMap(at)) {
        const pair = at.items.find(item => keyText(item.key) === step)
        if (!pair) break
        offset = startOf(pair.key) ?? offset
        at = pair.value
      } else if (isSeq(at)) {
        at = at.items[Number(step)]
        offset = startOf(at) ?? offset
      } else break
    }
    return offset === undefined ? 1 : lines.linePos(offset).line
  }
}

function anchorsIn(doc: Document.Parsed): string[] {
  const anchors: string[] = []
  visit(doc, {
    Value: (_, { anchor }) => {
      if (anchor !== undefined) anchors.push(anchor)
    },
  })
  return anchors
}

function keyText(key: unknown): string {
  return isScalar(key) ? (key.source ?? String(key.value)) : String(key)
}

function startOf(node: unknown): number | undefined {
  return (node as Node | null)?.range?.[0]
}
