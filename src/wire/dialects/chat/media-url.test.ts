import { expect, test } from 'vitest'
import { parseChatRequest } from './chat-dialect.ts'

const parse = (part: object) =>
  parseChatRequest(
    Buffer.from(
      JSON.stringify({ model: 'm', messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }, part] }] }),
    ),
  )
const image = (url: string) => ({ type: 'image_url', image_url: { url } })
const file = (file_data: string) => ({ type: 'file', file: { filename: 'f.pdf', file_data } })

test.each([
  'data:image/png;base64,iVBORw0KGgo=',
  'DATA:image/png;base64,AA',
  'https://example.com/a.png?size=2#x',
  'https://8.8.8.8/a.png',
  'https://images.example.co.uk:8443/%20a.png',
])('an image may be at %s', url => {
  // Names of RFC 2606 are refused, so that no example is fetched.
  const allowed = url.replace('example.com', 'example-shop.com').replace('example.co.uk', 'example-shop.co.uk')
  expect(parse(image(allowed)).features).toContain('images')
})

const forbidden = [
  ...['http://169.254.169.254/latest/meta-data/', 'https://169.254.169.254/', 'file:///etc/passwd', '/etc/passwd'],
  ...[
    'http://example-shop.com/a.png',
    'ftp://example-shop.com/a',
    'gopher://x',
    'javascript:1',
    '//10.0.0.1/a',
    'a.png',
  ],
  ...[
    'https://127.0.0.1/',
    'https://0x7f.1/',
    'https://0177.0.0.1/',
    'https://2130706433/',
    'https://127.1/',
    'https://0/',
  ],
  ...['https://１２７.０.０.１/', 'https://[::1]/', 'https://[::ffff:127.0.0.1]/', 'https://[64:ff9b::a9fe:a9fe]/'],
  ...['https://[fe80::1]/', 'https://[fc00::1]/', 'https://[::]/', 'https://100.64.0.1/', 'https://192.0.0.192/'],
  ...[
    'https://100.100.100.200/',
    'https://10.1.2.3/',
    'https://172.16.0.1/',
    'https://192.168.1.1/',
    'https://168.63.129.16/',
  ],
  ...[
    'https://localhost/',
    'https://localhost./',
    'https://a.localhost/',
    'https://10.0.0.1.nip.io/',
    'https://gpu-1/',
  ],
  ...[
    'https://metadata.google.internal/',
    'https://example-shop.com@127.0.0.1/',
    'https:\\\\127.0.0.1\\',
    'https:/\\127.0.0.1',
  ],
  ...[
    'https://exam\tple.com/',
    ' https://example-shop.com/',
    'https://example-shop.com:6379/',
    'ht\ntps://10.0.0.1/',
    '',
  ],
  `https://example-shop.com/${'a'.repeat(9_000)}`,
  ` ${'data:image/png;base64,AA'}`,
]
test.each(forbidden)('an image must not be at %s', url => {
  expect(() => parse(image(url))).toThrow(
    expect.objectContaining({
      code: 'invalid_value',
      param: 'messages[0].content[1].image_url.url',
      message: expect.stringContaining('must be a data: URL or a public https URL: '),
    }),
  )
})

test('a file is data or a public https URL, not the id of an uploaded file', () => {
  for (const data of ['JVBERi0xLjQ=', 'data:application/pdf;base64,AA', 'https://8.8.8.8/a.pdf', '/9j/4AAQ']) {
    expect(parse(file(data)).forward.messages).toBeDefined()
  }
  for (const data of ['http://169.254.169.254/', 'file:///etc/passwd', 'https://10.0.0.1/a.pdf']) {
    expect(() => parse(file(data))).toThrow(expect.objectContaining({ param: 'messages[0].content[1].file.file_data' }))
  }
  expect(() => parse({ type: 'file', file: { file_id: 'file-abc123' } })).toThrow(
    expect.objectContaining({ param: 'messages[0].content[1].file.file_id' }),
  )
})
