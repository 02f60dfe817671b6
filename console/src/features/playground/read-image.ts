import { t } from '@lingui/core/macro'

/** The side of an image that is sent: servers scale larger ones down, and bill for it. */
const SIDE_PX_MAX = 2_048
/** Smaller files are sent as they are. */
const KEPT_BYTES_MAX = 1_000_000
const QUALITY = 0.85

/** How much all images of a talk may have, because each request sends them all. A gateway takes 16 MB by default. */
export const IMAGE_CHARACTERS_MAX = 10_000_000
export const imageTypes = ['image/png', 'image/jpeg', 'image/webp', 'image/gif']

/**
 * Returns an image as a data: URL. A large one is scaled down and becomes a JPEG.
 *
 * @throws an error for people, if the file is no image that models take
 */
export async function readImage(file: File): Promise<string> {
  if (!imageTypes.includes(file.type)) throw new Error(t`${file.name} is no PNG, JPEG, WebP or GIF.`)
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(t`${file.name} cannot be read as an image.`)
  })
  const scale = Math.min(1, SIDE_PX_MAX / Math.max(bitmap.width, bitmap.height))
  if (scale === 1 && file.size <= KEPT_BYTES_MAX) {
    bitmap.close()
    return dataUrl(file)
  }
  const canvas = document.createElement('canvas')
  canvas.width = Math.round(bitmap.width * scale)
  canvas.height = Math.round(bitmap.height * scale)
  const context = canvas.getContext('2d')!
  // A JPEG has no transparent parts: without this, they turn black.
  context.fillStyle = 'white'
  context.fillRect(0, 0, canvas.width, canvas.height)
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height)
  bitmap.close()
  return canvas.toDataURL('image/jpeg', QUALITY)
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(reader.result as string)
    reader.onerror = () => reject(new Error(t`${file.name} cannot be read.`))
    reader.readAsDataURL(file)
  })
}
