-- SPDX-License-Identifier: BSD-3-Clause
-- Copyright the librpma authors

-- pictures.lua -- a pandoc filter: pictures in text become images
--
-- A document has a picture as text in a code block, so that it is seen everywhere the document is. A comment before the block
-- names its image: <!-- picture: NAME: DESCRIPTION -->. On the site, images/NAME.svg takes the place of the text;
-- doc/images/NAME.dot is its source.

local function replace_text(blocks)
  local out = pandoc.List()
  local image
  for _, block in ipairs(blocks) do
    local name, description
    if block.t == 'RawBlock' then
      name, description = block.text:match('^<!%-%- picture: ([%w-]+): (.-) %-%->')
    end
    if name then
      image = pandoc.Image({ pandoc.Str(description) }, 'images/' .. name .. '.svg')
    elseif image and block.t == 'CodeBlock' then
      out:insert(pandoc.Para({ image }))
      image = nil
    else
      out:insert(block)
      image = nil
    end
  end
  return out
end

return { { Blocks = replace_text } }
