import { t } from '@lingui/core/macro'
import { ActionIcon, Button, Tooltip } from '@mantine/core'
import { useEffect, useState } from 'react'
import { CheckIcon, CopyIcon } from './icons.tsx'

/** Copies a text. Pages without TLS have no clipboard object, so an old command is the second way. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const field = document.createElement('textarea')
    field.value = text
    field.setAttribute('readonly', '')
    // Inside of an open dialog, which keeps the focus.
    const place = document.querySelector('[role="dialog"]') ?? document.body
    place.append(field)
    field.select()
    const isCopied = document.execCommand('copy')
    field.remove()
    return isCopied
  }
}

const SHOWN_MS = 2_000

/**
 * @param what completes "Copy ...": "the key"
 * @param label shows a button with this text instead of an icon
 */
export function CopyButton({ text, what, label }: { text: string; what: string; label?: string }) {
  const [outcome, setOutcome] = useState<'copied' | 'failed' | null>(null)
  useEffect(() => {
    if (outcome === null) return
    const timer = setTimeout(() => setOutcome(null), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [outcome])
  const onClick = async () => setOutcome((await copy(text)) ? 'copied' : 'failed')
  const hint =
    outcome === 'failed' ? t`Select the text and press Ctrl+C` : outcome === 'copied' ? t`Copied` : t`Copy ${what}`
  const announced = (
    <span className="visually-hidden" role="status">
      {outcome === null ? '' : hint}
    </span>
  )
  if (label !== undefined) {
    return (
      <Button variant="default" onClick={onClick}>
        {outcome === 'copied' ? t`Copied` : label}
        {announced}
      </Button>
    )
  }
  return (
    <Tooltip label={hint}>
      <ActionIcon aria-label={t`Copy ${what}`} onClick={onClick}>
        {outcome === 'copied' ? <CheckIcon /> : <CopyIcon />}
        {announced}
      </ActionIcon>
    </Tooltip>
  )
}
