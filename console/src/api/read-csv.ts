import { t } from '@lingui/core/macro'
import { Problem, problemOf } from './request.ts'

export interface CsvProgress {
  /** Without the header. */
  readonly rows: number
  readonly bytes: number
}

/** Pieces are handed to the browser in parts of this size: it keeps a large Blob on disk. */
const PART_BYTES = 8 * 1024 * 1024
const NEW_LINE = 10

/**
 * Reads a CSV document of the gateway and reports how far it is. Rejects with Problem, also when the document ends
 * early, and with AbortError when the signal is aborted.
 *
 * @param path below /console/api
 */
export async function readCsv(
  path: string,
  { signal, onProgress }: { readonly signal: AbortSignal; readonly onProgress: (progress: CsvProgress) => void },
): Promise<{ readonly blob: Blob; readonly fileName: string } & CsvProgress> {
  const broken = () =>
    new Problem(t`The connection broke before the end of the file. Export it again.`, { status: 0, code: 'offline' })
  const response = await fetch(`/console/api/${path}`, { signal }).catch(error => {
    throw signal.aborted ? error : broken()
  })
  if (!response.ok) throw await problemOf(response)
  let lines = 0
  let bytes = 0
  let whole = new Blob([], { type: 'text/csv' })
  let part: Uint8Array<ArrayBuffer>[] = []
  let partBytes = 0
  const reader = response.body!.getReader()
  for (;;) {
    const { done, value } = await reader.read().catch(error => {
      throw signal.aborted ? error : broken()
    })
    if (done) break
    for (let at = value.indexOf(NEW_LINE); at !== -1; at = value.indexOf(NEW_LINE, at + 1)) lines++
    bytes += value.length
    part.push(value)
    partBytes += value.length
    if (partBytes >= PART_BYTES) {
      whole = new Blob([whole, ...part], { type: 'text/csv' })
      part = []
      partBytes = 0
    }
    onProgress({ rows: Math.max(0, lines - 1), bytes })
  }
  const name = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1]
  const blob = new Blob([whole, ...part], { type: 'text/csv' })
  return { blob, fileName: name ?? 'switchyard.csv', rows: Math.max(0, lines - 1), bytes }
}
