import { readFileSync } from 'node:fs'
import { isJsonObject } from '../../src/runtime/json-object.ts'

/** One prompt with what each model achieved. */
export interface RouterRow {
  readonly prompt: string
  /** The quality of each model's answer, 0 to 1. */
  readonly quality: Readonly<Record<string, number>>
  /** What each model's answer costs, in USD; empty when the data has no costs. */
  readonly costUsd: Readonly<Record<string, number>>
}

/**
 * Reads a table as CSV or JSON lines, in one of two forms. RouterBench: a column `prompt`, for each model a column of its
 * name with the quality, and `<model>|total_cost` with the cost in USD. RouteLLM's results of benchmarks: a column `prompt`,
 * and for each model a column with `True` or `False`, without costs. Other columns are ignored.
 */
export function readRows(path: string): RouterRow[] {
  const text = readFileSync(path, 'utf8')
  const records = text.trimStart().startsWith('{') ? jsonLines(text) : csvRecords(text)
  const rows = records.flatMap(toRow)
  if (rows.length === 0) throw new Error(`${path} has no row with a prompt and the quality of a model.`)
  return rows
}

const COST = '|total_cost'
const ignored: ReadonlySet<string> = new Set(['prompt', 'sample_id', 'eval_name', 'oracle_model_to_route_to', ''])

function toRow(record: Readonly<Record<string, unknown>>): RouterRow[] {
  const prompt = promptOf(record.prompt)
  const names = Object.keys(record).filter(name => !name.includes('|') && !ignored.has(name))
  const quality = numbersOf(names.map(name => [name, record[name]]))
  const costUsd = numbersOf(names.map(name => [name, record[name + COST]]))
  return prompt === null || Object.keys(quality).length === 0 ? [] : [{ prompt, quality, costUsd }]
}

/** RouterBench writes some prompts as a list of texts. */
function promptOf(value: unknown): string | null {
  if (Array.isArray(value)) return value.filter(item => typeof item === 'string').join('\n')
  return typeof value === 'string' && value !== '' ? value : null
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
