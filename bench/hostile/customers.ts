import { atRate, type Behaviour, type Target } from './behaviour.ts'

const thai = 'การประมวลผลภาษาธรรมชาติเป็นสาขาหนึ่งของวิทยาการคอมพิวเตอร์ที่เกี่ยวข้องกับภาษามนุษย์'
const prose = 'The signalman looks at the river, which is six minutes late; the timetable does not mention it. '

/** Customers with a valid key that send requests which are expensive for the gateway. */
export const customerBehaviours: readonly Behaviour[] = [
  sends('140 kB of Thai, 5 a second', 5, () => chat(fill(thai, 47_000))),
  sends('140 kB of Thai to the demo model, 5 a second', 5, () => ({ ...chat(fill(thai, 47_000)), model: 'demo' })),
  sends('dry_run with 64k random CJK, 5 a second', 5, () => ({ ...chat(randomCjk(65_536)), dry_run: true })),
  sends('1 MB of random CJK, 2 a second', 2, () => chat(randomCjk(350_000))),
  sends('4 MB of English, 2 a second', 2, () => chat(fill(prose, 4_000_000))),
  sends('100,000 messages, 2 a second', 2, () => ({
    ...chat(''),
    messages: Array.from({ length: 100_000 }, () => ({ role: 'user', content: 'a' })),
  })),
  sends('4 MB that is not JSON, 5 a second', 5, () => fill('[', 4_000_000)),
  sends('max_tokens of 1e15, 50 a second', 50, () => ({ ...chat('Hi'), max_tokens: 1e15 })),
]

/** A string is sent as it is. */
function sends(name: string, ratePerS: number, body: () => object | string): Behaviour {
  return {
    name,
    party: 'customer',
    async run(target) {
      // Made before the load, so that it costs the attacker nothing.
      const bodies = Array.from({ length: 4 }, body).map(made =>
        typeof made === 'string' ? made : JSON.stringify(made),
      )
      let sent = 0
      await atRate(ratePerS, target.signal, () => post(target, bodies[sent++ % bodies.length]!))
    },
  }
}

async function post({ origin, headers, note }: Target, body: string): Promise<void> {
  const init = { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body }
  const response = await fetch(`${origin}/v1/chat/completions`, init)
  await response.arrayBuffer()
  note(response.status)
}

function chat(content: string): object {
  return { model: 'bench', messages: [{ role: 'user', content }], max_tokens: 16 }
}

function fill(text: string, units: number): string {
  return text.repeat(Math.ceil(units / text.length)).slice(0, units)
}

function randomCjk(units: number): string {
  return Array.from({ length: units }, () => String.fromCharCode(0x4e00 + Math.floor(Math.random() * 20_000))).join('')
}
