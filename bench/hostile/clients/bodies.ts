import { gzipSync } from 'node:zlib'
import type { ClientBehaviour } from '../behaviour.ts'
import { fill, named, randomCjk } from './fillers.ts'
import { chat, sends } from './send.ts'

const thai = 'การประมวลผลภาษาธรรมชาติเป็นสาขาหนึ่งของวิทยาการคอมพิวเตอร์ที่เกี่ยวข้องกับภาษามนุษย์'
const prose = 'The signalman looks at the river, which is six minutes late; the timetable does not mention it. '
const five = { ratePerS: 5 }
const two = { ratePerS: 2 }
const many = { ratePerS: 200 }

/** A chat of 4,096 tool calls. */
const history = (more: object = {}) => {
  const call = (at: number) => ({ id: `call-${at}`, type: 'function', function: { name: 'f', arguments: '{"a":1}' } })
  const calls = Array.from({ length: 1_024 }, (_, at) => ({
    role: 'assistant',
    tool_calls: [0, 1, 2, 3].map(index => call(at * 4 + index)),
  }))
  return chat('', { messages: [...calls, { role: 'user', content: 'Hi' }], ...more })
}

/** Customers with a valid key that send bodies which are expensive for the gateway. */
export const bodyClients: readonly ClientBehaviour[] = [
  sends('thai', '140 kB of Thai', five, () => ({ body: chat(fill(thai, 47_000)) })),
  sends('thai-demo', '140 kB of Thai to the demo model', five, () => ({
    body: chat(fill(thai, 47_000), { model: 'demo' }),
  })),
  sends('dry-run-cjk', 'dry_run with 64k random CJK', five, () => ({
    body: chat(randomCjk(65_536), { dry_run: true }),
  })),
  sends('histories', 'histories of 4,096 calls', { ratePerS: 10 }, () => ({ body: history() })),
  sends('dry-run-histories', 'dry_run with histories of 4,096 calls', { ratePerS: 20 }, () => ({
    body: history({ dry_run: true }),
  })),
  sends('dry-run-flood', 'dry_run', many, () => ({ body: chat('Hi', { dry_run: true }) })),
  // Below the length from which customers take turns.
  sends('english-60-kb', '60 kB of English', many, () => ({ body: chat(fill(prose, 60_000)) })),
  sends('duplicate-60-kb', 'a name twice in 60 kB', many, () => ({
    body: JSON.stringify(chat(fill(prose, 60_000))).replace('{', '{"model":"a",'),
  })),
  sends('cjk-1-mb', '1 MB of random CJK', two, () => ({ body: chat(randomCjk(350_000)) })),
  sends('english-4-mb', '4 MB of English', two, () => ({ body: chat(fill(prose, 4_000_000)) })),
  sends('emoji-4-mb', '4 MB of emoji', two, () => ({ body: chat(fill('👩‍👩‍👧‍👦', 1_500_000)) })),
  sends('escapes-4-mb', '4 MB of \\u escapes', two, () => ({
    body: JSON.stringify(chat('@')).replace('@', '\\u0e01'.repeat(650_000)),
  })),
  sends('surrogates-4-mb', '4 MB of lone surrogates', two, () => ({
    body: JSON.stringify(chat('@')).replace('@', '\\ud800'.repeat(650_000)),
  })),
  sends('messages-100k', '100,000 messages', two, () => ({
    body: chat('', { messages: Array.from({ length: 100_000 }, () => ({ role: 'user', content: 'a' })) }),
  })),
  sends('messages-2k', '2,000 messages', { ratePerS: 10 }, () => ({
    body: chat('', { messages: Array.from({ length: 2_000 }, () => ({ role: 'user', content: 'Hello there' })) }),
  })),
  sends('role-1-mb', 'a role of 1 MB', five, () => ({
    body: chat('', { messages: [{ role: 'x'.repeat(1e6), content: 'a' }] }),
  })),
  sends('brackets-4-mb', '4 MB of open brackets', five, () => ({ body: fill('[', 4_000_000) })),
  sends('half-text-4-mb', '4 MB of a text without its closing quote', five, () => ({
    body: `{"model":"${fill('x', 4_000_000)}`,
  })),
  sends('half-escapes-4-mb', '4 MB of backslashes', five, () => ({ body: `{"model":"${fill('\\', 4_000_000)}` })),
  sends('spaces-4-mb', '4 MB of spaces', five, () => ({ body: fill(' ', 4_000_000) })),
  sends('digits-4-mb', 'a number with 4 million digits', five, () => ({
    body: `{"max_tokens":${fill('1234567890', 4_000_000)}}`,
  })),
  sends('prose-4-mb', '4 MB of English that is not JSON', five, () => ({ body: fill(prose, 4_000_000) })),
  sends('not-utf8-4-mb', '4 MB that are not UTF-8', five, () => ({
    body: Buffer.from(`{"model":"${fill('ÿ', 4_000_000)}"}`, 'latin1'),
  })),
  sends('deep-200k', '200,000 levels', five, () => ({
    body: `{"messages":${'['.repeat(200_000)}${']'.repeat(200_000)}}`,
  })),
  sends('names-60k', '60,000 different names', five, () => ({ body: chat('a', { metadata: named(60_000) }) })),
  sends('names-200k', '200,000 different names', five, () => ({ body: chat('a', { metadata: named(200_000) }) })),
  sends('duplicate-250k', 'a name twice in 250 kB', five, () => ({
    body: JSON.stringify(chat('a'.repeat(250_000))).replace('{', '{"model":"a",'),
  })),
  sends('duplicate-4-mb', 'a name twice in 4 MB', five, () => ({
    body: JSON.stringify(chat(fill(prose, 3_900_000))).replace('{', '{"model":"a",'),
  })),
  sends('numbers-130k', '130,000 numbers', five, () => ({
    body: chat('a', { metadata: Array.from({ length: 130_000 }, (_, at) => at / 7) }),
  })),
  sends('image-3-mb', 'an image of 3 MB in the body', five, () => ({
    body: chat([{ type: 'image_url', image_url: { url: `data:image/png;base64,${fill('QUJD', 3_000_000)}` } }]),
  })),
  sends('images-1000', '1,000 images by address', { ratePerS: 10 }, () => ({
    body: chat(
      Array.from({ length: 1_000 }, (_, at) => ({
        type: 'image_url',
        image_url: { url: `https://example.com/${at}.png` },
      })),
    ),
  })),
  sends('tools-512', '512 tools with large schemas', five, () => ({
    body: chat('a', {
      tools: Array.from({ length: 512 }, (_, at) => ({
        type: 'function',
        function: {
          name: `f${at}`,
          description: 'x'.repeat(500),
          parameters: { type: 'object', properties: named(40) },
        },
      })),
    }),
  })),
  sends('stops-100k', '100,000 stop texts', five, () => ({
    body: chat('a', { stop: Array.from({ length: 100_000 }, () => 'stop') }),
  })),
  sends('logit-bias-60k', '60,000 biases', five, () => ({
    body: chat('a', { logit_bias: Object.fromEntries(Array.from({ length: 60_000 }, (_, at) => [at, 1])) }),
  })),
  sends('fallbacks-100k', '100,000 fallback models', five, () => ({
    body: chat('a', { fallback_models: Array.from({ length: 100_000 }, (_, at) => `m${at}`) }),
  })),
  sends('hosters-60k', '60,000 allowed hosters', five, () => ({
    body: chat('a', { allow_hosters: Array.from({ length: 60_000 }, () => crypto.randomUUID()) }),
  })),
  sends('choices-128', 'n of 128', many, () => ({ body: chat('a', { n: 128 }) })),
  sends('max-tokens-1e15', 'max_tokens of 1e15', many, () => ({ body: chat('a', { max_tokens: 1e15 }) })),
  sends('gzip-bomb', '400 kB of gzip that unpack to 400 MB', five, () => ({
    body: gzipSync(Buffer.alloc(400_000_000)),
    headers: { 'content-encoding': 'gzip' },
  })),
  sends('too-large', 'bodies of 8 MB, above the limit', five, () => ({ body: fill('x', 8_000_000) })),
  sends('invalid-flood', 'bodies that are not JSON', { ratePerS: 1_000 }, () => ({ body: '{' })),
  sends('models-unknown', 'models that do not exist, with names of 10 kB', many, at => ({
    body: chat('a', { model: `${at}${'x'.repeat(10_000)}` }),
  })),
]
