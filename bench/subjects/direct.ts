import type { Setting, Subject } from './subject.ts'

/** No gateway: the load talks to the upstream. What the others add is counted from here. */
export async function startDirect({ upstreamOrigin }: Setting): Promise<Subject> {
  return { url: `${upstreamOrigin}/v1/chat/completions`, headers: {}, pid: null, stop: async () => {} }
}
