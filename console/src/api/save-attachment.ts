import { t } from '@lingui/core/macro'
import { Problem, problemOf } from './request.ts'

const NEW_LINE = 10

/** Pieces are handed to the browser in parts of this size: it keeps a large Blob on disk. */
const PART_BYTES = 8 * 1024 * 1024

/**
 * Receives a file that the gateway sends as an attachment, and lets the browser save it. Rejects with Problem, also when the file
 * ends early, and with AbortError when the signal is aborted.
 *
 * @param path below /console/api
 * @param order.onPiece called with each piece
 */
export async function saveAttachment(
  path: string,
  { signal, onPiece, ...init }: RequestInit & { signal: AbortSignal; onPiece: (piece: Uint8Array) => void },
): Promise<void> {
  const broken = () =>
    new Problem(t`The connection broke before the end of the file. Export it again.`, { status: 0, code: 'offline' })
  const response = await fetch(`/console/api/${path}`, { ...init, signal }).catch(error => {
    throw signal.aborted ? error : broken()
  })
  if (!response.ok) throw await problemOf(response)
  const type = response.headers.get('content-type')?.split(';')[0] ?? ''
  let whole = new Blob([], { type })
  let part: Uint8Array<ArrayBuffer>[] = []
  let partBytes = 0
  const reader = response.body!.getReader()
  for (;;) {
    const { done, value } = await reader.read().catch(error => {
      throw signal.aborted ? error : broken()
    })
    if (done) break
    part.push(value)
    partBytes += value.length
    if (partBytes >= PART_BYTES) {
      whole = new Blob([whole, ...part], { type })
      part = []
      partBytes = 0
    }
    onPiece(value)
  }
  const name = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1]
  const url = URL.createObjectURL(new Blob([whole, ...part], { type }))
  Object.assign(document.createElement('a'), { href: url, download: name ?? 'switchyard' }).click()
  // The browser has taken what it saves.
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

export interface CsvProgress {
  /** Without the header. */
  readonly rows: number
  readonly bytes: number
}

/**
 * Saves a CSV document of the gateway and reports how far it is. Rejects as `saveAttachment`.
 *
 * @param path below /console/api
 */
export async function saveCsv(
  path: string,
  { signal, onProgress }: { readonly signal: AbortSignal; readonly onProgress: (progress: CsvProgress) => void },
): Promise<CsvProgress> {
  let lines = 0
  let bytes = 0
  await saveAttachment(path, {
    signal,
    onPiece(piece) {
      for (let at = piece.indexOf(NEW_LINE); at !== -1; at = piece.indexOf(NEW_LINE, at + 1)) lines++
      bytes += piece.length
      onProgress({ rows: Math.max(0, lines - 1), bytes })
    },
  })
  return { rows: Math.max(0, lines - 1), bytes }
}
