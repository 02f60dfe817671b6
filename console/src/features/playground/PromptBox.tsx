import { t } from '@lingui/core/macro'
import { Button, Textarea } from '@mantine/core'
import { type ReactNode, useRef, useState } from 'react'
import styles from './playground.module.css'
import { IMAGE_CHARACTERS_MAX, imageTypes, readImage } from './read-image.ts'
import { Images } from './Talk.tsx'
import type { Prompt } from './use-talk.ts'

/**
 * The prompt at the foot of the page, with its images.
 *
 * @param props.sentImageCharacters of the images that the talk has already
 * @param props.imageRefusal why no image can be added; null if one can
 * @param props.refusal why nothing can be sent now; null if it can
 */
export function PromptBox({
  prompt,
  sentImageCharacters,
  hint,
  imageRefusal,
  refusal,
  isRunning,
  onChange,
  onSend,
  onStop,
  onTouch,
  children,
}: {
  prompt: Prompt
  sentImageCharacters: number
  hint?: string | undefined
  imageRefusal: string | null
  refusal: string | null
  isRunning: boolean
  onChange: (change: (before: Prompt) => Prompt) => void
  onSend: () => void
  onStop: () => void
  onTouch: () => void
  children: ReactNode
}) {
  const file = useRef<HTMLInputElement>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const { text, images } = prompt
  const isEmpty = text.trim() === '' && images.length === 0
  const imageProblem = images.length > 0 ? imageRefusal : null
  const mayBeSent = !isRunning && !isEmpty && refusal === null && imageProblem === null

  async function attach(files: readonly File[]) {
    setProblem(imageRefusal)
    if (imageRefusal !== null) return
    let characters = sentImageCharacters + charactersOf(images)
    for (const each of files) {
      try {
        const url = await readImage(each)
        characters += url.length
        if (characters > IMAGE_CHARACTERS_MAX) throw new Error(t`The images of a talk can have 7.5 MB together.`)
        onChange(before => ({ ...before, images: [...before.images, url] }))
      } catch (error) {
        return setProblem((error as Error).message)
      }
    }
  }

  return (
    <form
      className={styles.prompt}
      onFocus={onTouch}
      onSubmit={event => {
        event.preventDefault()
        if (mayBeSent) onSend()
      }}
    >
      <Images
        urls={images}
        onRemove={index => onChange(before => ({ ...before, images: before.images.toSpliced(index, 1) }))}
      />
      <Textarea
        label={t`Prompt`}
        description={hint}
        placeholder={t`Ctrl+Enter sends it`}
        error={problem ?? imageProblem}
        minRows={2}
        maxRows={12}
        value={text}
        onChange={event => {
          const typed = event.currentTarget.value
          onChange(before => ({ ...before, text: typed }))
        }}
        onPaste={event => {
          const files = [...event.clipboardData.files]
          if (files.length === 0) return
          event.preventDefault()
          void attach(files)
        }}
        onKeyDown={event => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit()
        }}
      />
      <div className={styles.send}>
        {isRunning ? (
          <Button variant="default" onClick={onStop}>{t`Stop`}</Button>
        ) : (
          <Button type="submit" disabled={!mayBeSent} title={refusal ?? undefined}>{t`Send`}</Button>
        )}
        <Button
          variant="default"
          disabled={imageRefusal !== null || isRunning}
          title={imageRefusal ?? t`You can also paste images`}
          onClick={() => file.current?.click()}
        >{t`Add images`}</Button>
        <input
          ref={file}
          type="file"
          accept={imageTypes.join(',')}
          multiple
          hidden
          aria-label={t`Image files`}
          onChange={event => {
            void attach([...(event.currentTarget.files ?? [])])
            // The same file may be chosen again.
            event.currentTarget.value = ''
          }}
        />
      </div>
      {children}
    </form>
  )
}

export function charactersOf(images: readonly string[]): number {
  return images.reduce((sum, url) => sum + url.length, 0)
}
