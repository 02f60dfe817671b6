import type { StreamPart } from '../../../base/domain/handoff.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import type { StreamNormaliser } from '../upstream-task.ts'

/** A stream whose parts are read or changed on their way, while another one turns the events into them. */
export abstract class FittedStream implements StreamNormaliser {
  protected readonly stream: StreamNormaliser

  constructor(stream: StreamNormaliser) {
    this.stream = stream
  }

  get delimiters(): number {
    return this.stream.delimiters
  }

  get delimitersMax(): number {
    return this.stream.delimitersMax
  }

  get done(): boolean {
    return this.stream.done
  }

  get usage(): StreamNormaliser['usage'] {
    return this.stream.usage
  }

  get complete(): boolean {
    return this.stream.complete
  }

  get awaitsUsage(): boolean {
    return this.stream.awaitsUsage
  }

  abstract text(event: SseEvent): string | null
  abstract push(event: SseEvent): StreamPart[]
  abstract end(): StreamPart[]
}
