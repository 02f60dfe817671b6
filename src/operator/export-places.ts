import type { Readable } from 'node:stream'
import { ApiError } from '../base/domain/errors.ts'
import { sayRefusal } from '../base/domain/refusals.ts'

/** Opens an export, which holds a place until its stream closes. Rejects with `too_many_concurrent_requests` when all places are taken. */
export type TakeExportPlace = <Export>(
  open: () => Promise<Export>,
  streamOf: (opened: Export) => Readable,
) => Promise<Export>

/** @param max how many exports run at a time on this node */
export function createExportPlaces(max: number): TakeExportPlace {
  let running = 0
  return async (open, streamOf) => {
    if (running >= max)
      throw new ApiError('too_many_concurrent_requests', {
        message: sayRefusal('refusal.too_many_exports'),
        retryAfterS: 10,
      })
    running++
    try {
      const opened = await open()
      streamOf(opened).once('close', () => running--)
      return opened
    } catch (error) {
      running--
      throw error
    }
  }
}
