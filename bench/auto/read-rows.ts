import { readFileSync } from 'node:fs'
import { isJsonObject } from '../../src/base/runtime/json-object.ts'
import { readPythonList } from './python-list.ts'

/** One prompt with what each model achieved. */
export interface RouterRow {
  readonly prompt: string
  /** The quality of each model's answer, 0 to 1. */
  readonly quality: Readonly<Record<string, number>>
  /** What each model's answer costs, in USD; empty when the data has no costs. */
  readonly costUsd: Readonly<Record<string, number>>
  /** The length of each model's answer in characters, where the data has the answers. */
  readonly answerLength: Readonly<Record<string, number>>
}

/**
 * Reads a table as CSV or JSON lines, in one of two forms, as their repositories define them:
 *
 * - RouterBench (withmartian/routerbench, `convertors/common.py`): `sample_id`, `prompt`, `eval_name`; for each model a column of
 *   its name with the quality, `<model>|model_response` and `<model>|total_cost` in USD; `oracle_model_to_route_to`. A prompt is the
 *   text of a Python list.
 * - RouteLLM (lm-sys/RouteLLM, `routellm/evals`): `prompt`, and for each model a column with `True` or `False`; for GSM8K also
 *   `<model>_response`. No costs.
 *
 * Throws if a quality is not from 0 to 1.
 */
export function readRows(path: string): RouterRow[] {
  const text = readFileSync(path, 'utf8')
  const records = text.trimStart().startsWith('{') ? jsonLines(text) : csvRecords(text)
  const rows = records.flatMap(toRow)
  if (rows.length === 0) throw new Error(`${path} has no row with a prompt and the quality of a model.`)
  return rows
}

const COST = '|total_cost'
/** Columns of answers: those of RouterBench, and those of RouteLLM. */
const ANSWERS = ['|model_response', '_response']
const ignored: ReadonlySet<string> = new Set(['prompt', 'sample_id', 'eval_name', 'oracle_model_to_route_to', ''])

function toRow(record: Readonly<Record<string, unknown>>): RouterRow[] {
  const prompt = textOf(record.prompt)
  if (prompt === '') return []
  const names = modelsOf(Object.keys(record))
  const quality = numbersOf(names.map(name => [name, record[name]]))
  for (const [name, value] of Object.entries(quality)) {
    if (value < 0 || value > 1) throw new Error(`The quality of ${name} is ${value}. It must be from 0 to 1.`)
  }
  if (Object.keys(quality).length === 0) return []
  const answers = names.flatMap(name => {
    const answer = ANSWERS.map(suffix => textOf(record[name + suffix])).find(each => each !== '')
    return answer === undefined ? [] : [[name, answer.length] as const]
  })
  return [
    {
      prompt,
      quality,
      costUsd: numbersOf(names.map(name => [name, record[name + COST]])),
      answerLength: Object.fromEntries(answers),
    },
  ]
}

/** RouterBench has a cost for each model. RouteLLM has no other columns than models and answers. */
function modelsOf(columns: readonly string[]): string[] {
  const priced = columns.filter(name => name.endsWith(COST)).map(name => name.slice(0, -COST.length))
  if (priced.length > 0) return priced
  const answers = new Set(columns.flatMap(name => ANSWERS.map(suffix => name + suffix)))
  return columns.filter(name => !ignored.has(name) && !answers.has(name) && !name.includes('|'))
}

/** Returns the parts of a conversation or an answer as one text; empty when there is none. */
function textOf(value: unknown): string {
  const list = typeof value === 'string' ? (readPythonList(value) ?? [value]) : value
  return Array.isArray(list) ? list.filter(item => typeof item === 'string').join('\n') : ''
}

function numbersOf(entries: readonly (readonly [string, unknown])[]): Record<string, number> {
  return Object.fromEntries(
    entries.flatMap(([name, value]) => {
      const number = numberOf(value)
      return number === null ? [] : [[name, number]]
    }),
  )
}

function numberOf(value: unknown): number | null {
  if (typeof value === 'boolean') return value ? 1 : 0
  if (value === 'True' || value === 'true') return 1
  if (value === 'False' || value === 'false') return 0
  const number =
    typeof value === 'number' ? value : typeof value === 'string' && value !== '' ? Number(value) : Number.NaN
  return Number.isFinite(number) ? number : null
}

function jsonLines(text: string): Record<string, unknown>[] {
  return text.split('\n').flatMap(line => {
    const value: unknown = line.trim() === '' ? null : JSON.parse(line)
    return isJsonObject(value) ? [value] : []
  })
}

function csvRecords(text: string): Record<string, unknown>[] {
  const [head = [], ...lines] = csvLines(text)
  return lines.map(cells => Object.fromEntries(head.map((name, index) => [name, cells[index] ?? ''])))
}

/** RFC 4180: cells in quotes may contain commas, line breaks and doubled quotes. */
function csvLines(text: string): string[][] {
  const lines: string[][] = []
  let cells: string[] = []
  let cell = ''
  let isQuoted = false
  const endLine = () => {
    cells.push(cell)
    if (cells.length > 1 || cell !== '') lines.push(cells)
    cells = []
    cell = ''
  }
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!
    if (isQuoted) {
      if (character !== '"') cell += character
      else if (text[at + 1] === '"') cell += text[at++]
      else isQuoted = false
    } else if (character === '"') isQuoted = true
    else if (character === ',') {
      cells.push(cell)
      cell = ''
    } else if (character === '\n') endLine()
    else if (character !== '\r') cell += character
  }
  endLine()
  return lines
}
