export function baseUrl(): string {
  return `${location.origin}/v1`
}

/** The fields of a chat request that the clients of OpenAI know by name. */
interface ChatBody {
  readonly model: string
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
  /** Fields of this gateway, such as `tier`. */
  readonly [field: string]: unknown
}

/** A chat request in three languages, and with an answer that arrives piece by piece. Each runs as it stands, once the key is filled in. */
export function chatCode(body: ChatBody, key = 'YOUR_KEY'): Readonly<Record<string, string>> {
  const url = baseUrl()
  const { model, messages, ...own } = body
  const hasOwn = Object.keys(own).length > 0
  return {
    curl: `curl ${url}/chat/completions \\
  -H 'Authorization: Bearer ${key}' \\
  -H 'Content-Type: application/json' \\
  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
    JavaScript: `// npm install openai
import OpenAI from 'openai'

const client = new OpenAI({ baseURL: '${url}', apiKey: '${key}' })
const chat = await client.chat.completions.create(${JSON.stringify(body, null, 2)})
console.log(chat.choices[0].message.content)`,
    Python: `# pip install openai
from openai import OpenAI

client = OpenAI(base_url="${url}", api_key="${key}")
chat = client.chat.completions.create(
    model=${pythonText(model)},
    messages=${pythonText(messages)},${hasOwn ? `\n    extra_body=${pythonText(own)},` : ''}
)
print(chat.choices[0].message.content)`,
    ...(body.stream !== true && { 'Python stream': streamCode(body, url, key) }),
  }
}

function streamCode({ model, messages, ...own }: ChatBody, url: string, key: string): string {
  const hasOwn = Object.keys(own).length > 0
  return `# pip install openai
from openai import OpenAI

client = OpenAI(base_url="${url}", api_key="${key}")
stream = client.chat.completions.create(
    model=${pythonText(model)},
    messages=${pythonText(messages)},${hasOwn ? `\n    extra_body=${pythonText(own)},` : ''}
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`
}

/** Writes JSON data as Python does. */
function pythonText(value: unknown): string {
  if (value === true) return 'True'
  if (value === false) return 'False'
  if (value === null) return 'None'
  if (Array.isArray(value)) return `[${value.map(pythonText).join(', ')}]`
  if (typeof value !== 'object') return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([name, each]) => `${JSON.stringify(name)}: ${pythonText(each)}`)
    .join(', ')}}`
}
