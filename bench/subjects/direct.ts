import type { Subject, SubjectOptions } from './subject.ts'

/** No gateway: the load talks to the upstream directly. The baseline of all added delays. */
export async function startDirect({ upstreamOrigin }: SubjectOptions): Promise<Subject> {
  return { url: `${upstreamOrigin}/v1/chat/completions`, headers: {}, pid: null, stop: async () => {} }
}
